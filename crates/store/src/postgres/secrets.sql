-- Secrets of tenants, encrypted. The value opens only with the key named beside it.
CREATE TABLE secrets (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Tools, hosts and place, as JSON.
    rule text NOT NULL,
    key text NOT NULL,
    sealed bytea NOT NULL,
    set_at bigint NOT NULL,
    set_by uuid NOT NULL,
    PRIMARY KEY (tenant, name)
);
