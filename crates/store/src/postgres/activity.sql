-- Calls that ended, per slot of ten seconds, by their end and the class of their time (-1 for none); added
-- in the commit of the step that ends a call. Slots of more than a day ago are removed.
CREATE TABLE activity (
    tenant text NOT NULL,
    slot bigint NOT NULL,
    ending bigint NOT NULL,
    class bigint NOT NULL,
    calls bigint NOT NULL,
    PRIMARY KEY (tenant, slot, ending, class)
) WITH (fillfactor = 70);
