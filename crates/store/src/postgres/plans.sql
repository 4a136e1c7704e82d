-- Plans; `document`, `state` and `payload` are JSON. `owner` is the process that drives an open plan.
CREATE TABLE plans (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    key uuid NOT NULL,
    persona text,
    status text NOT NULL,
    open boolean NOT NULL,
    owner bigint,
    goal text NOT NULL,
    document text NOT NULL,
    state text NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    version bigint NOT NULL
);
CREATE INDEX plans_of_tenant ON plans (tenant, id);
CREATE INDEX plans_open ON plans (id) WHERE open;

CREATE TABLE plan_events (
    plan uuid NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (plan, number)
);
