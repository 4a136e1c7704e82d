-- Calls that a process without sandboxes accepted, and that wait for a worker to take them. One with an owner waits for
-- that worker.
ALTER TABLE calls ADD queued boolean NOT NULL DEFAULT false;

CREATE INDEX calls_to_take ON calls (tenant, seq) WHERE queued;

DROP INDEX calls_queued;
