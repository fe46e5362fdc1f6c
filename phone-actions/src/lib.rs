//! The phone_action contract: what a model may ask of a person's phone, the card, and the answer.
