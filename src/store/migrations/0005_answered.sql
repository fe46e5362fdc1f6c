-- Said before the device was there, with the agent's own words behind it.
ALTER TABLE inbox ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;
