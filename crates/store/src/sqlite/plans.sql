-- Plans. Documents and states are JSON.
CREATE TABLE plans (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    key BLOB NOT NULL,
    persona TEXT,
    status TEXT NOT NULL,
    -- Whether a process has to drive it, and which one does.
    open INTEGER NOT NULL,
    owner INTEGER,
    goal TEXT NOT NULL,
    document TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX plans_of_tenant ON plans (tenant, id);
CREATE INDEX plans_open ON plans (id) WHERE open;

CREATE TABLE plan_events (
    plan BLOB NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (plan, number)
) WITHOUT ROWID, STRICT;
