-- Calls that wait for a worker to take them.
ALTER TABLE calls ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;

CREATE INDEX calls_to_take ON calls (seq) WHERE queued = 1;
