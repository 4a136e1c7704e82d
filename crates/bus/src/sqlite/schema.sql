CREATE TABLE bus_topics (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- `first` is the oldest offset that is kept, `next` the one that the next message gets; so a topic
-- holds the sum of their differences, and no offset is ever given twice.
CREATE TABLE bus_partitions (
    slot INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    number INTEGER NOT NULL,
    first INTEGER NOT NULL,
    next INTEGER NOT NULL,
    UNIQUE (topic, number)
) STRICT;

-- `place` is the slot and the offset in one number: messages of a partition lie side by side in
-- their order, and need no index.
CREATE TABLE bus_messages (
    place INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key BLOB,
    headers BLOB NOT NULL,
    payload BLOB NOT NULL
) STRICT;

-- How far a group has come in a partition, and how it fared with the message that is there.
CREATE TABLE bus_positions (
    slot INTEGER NOT NULL,
    member_group TEXT NOT NULL,
    position INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    rejections INTEGER NOT NULL,
    PRIMARY KEY (slot, member_group)
) WITHOUT ROWID, STRICT;

CREATE TABLE bus_dead (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL,
    member_group TEXT NOT NULL,
    cause TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    key BLOB,
    headers BLOB NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX bus_dead_by_topic ON bus_dead (topic);
