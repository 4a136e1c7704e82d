-- Calls that ended, per slot of ten seconds, by their end and the class of their time (-1 for none); added
-- in the commit of the step that ends a call. Slots of more than a day ago are removed.
CREATE TABLE activity (
    tenant TEXT NOT NULL,
    slot INTEGER NOT NULL,
    ending INTEGER NOT NULL,
    class INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (tenant, slot, ending, class)
) WITHOUT ROWID, STRICT;
