-- What was found about policies that are tried, by the names that operators give them.
CREATE TABLE canaries (
    name TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    -- A list of numbers; what each counts is for the reader to know.
    counts TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE canary_differences (
    canary TEXT NOT NULL,
    -- Grows by one with each, so that the oldest are found without counting.
    number INTEGER NOT NULL,
    difference TEXT NOT NULL,
    PRIMARY KEY (canary, number)
) WITHOUT ROWID, STRICT;
