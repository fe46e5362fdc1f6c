-- An answer finds its question by the message that asks.
CREATE INDEX ask_event ON ask (agent, room, event_id) WHERE event_id IS NOT NULL;
