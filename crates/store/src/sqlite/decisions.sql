-- What policy said, with the document that it judged. Rows are written once, mostly in the order
-- of time, so both indexes grow at their end.
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    call BLOB NOT NULL,
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    decision TEXT NOT NULL,
    input TEXT NOT NULL
) STRICT;

CREATE INDEX decisions_by_call ON decisions (call);
CREATE INDEX decisions_by_time ON decisions (at);
