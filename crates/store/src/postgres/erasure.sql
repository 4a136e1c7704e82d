-- Position of the ledger's entry that says that the records of the call were erased; NULL while they are kept.
-- The row stays: entries of the ledger refer to it.
ALTER TABLE calls ADD COLUMN erased_in bigint;

-- For the retention, which finds the oldest.
CREATE INDEX session_events_by_time ON session_events (at);
