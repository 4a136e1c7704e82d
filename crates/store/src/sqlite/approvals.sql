-- What people allowed. A row is never changed but for its revocation; who used it is beside it.
CREATE TABLE approvals (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    revoked_at INTEGER,
    revoked_by BLOB,
    approval TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX approvals_by_tenant ON approvals (tenant, id);
CREATE INDEX approvals_of_tool ON approvals (tenant, tool, id);

-- One row for each call that ran by an approval, however often it was begun.
CREATE TABLE approval_uses (
    approval BLOB NOT NULL,
    call BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (approval, call)
) WITHOUT ROWID, STRICT;
