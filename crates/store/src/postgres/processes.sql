-- Where other processes reach a process, and what it runs with.
ALTER TABLE processes
    ADD address text,
    ADD role text NOT NULL DEFAULT 'all',
    ADD version text NOT NULL DEFAULT '',
    ADD policy bytea;

-- Session sandboxes, each in the memory of one process.
CREATE TABLE sandboxes (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    owner bigint NOT NULL
);

CREATE INDEX sandboxes_by_owner ON sandboxes (owner);

-- Calls that wait for a process to take them: accepted, and owned by none.
CREATE INDEX calls_queued ON calls (tenant, seq) WHERE open AND owner IS NULL AND state = 'accepted';
