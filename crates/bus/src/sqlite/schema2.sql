-- Dead letters by the name of their topic, so that they do not depend on the backend of the bus.
CREATE TABLE bus_dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    member_group TEXT NOT NULL,
    cause TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    died_at INTEGER NOT NULL,
    key BLOB,
    headers BLOB NOT NULL,
    payload BLOB NOT NULL
) STRICT;

INSERT INTO bus_dead_letters (id, topic, member_group, cause, attempts, died_at, key, headers, payload)
SELECT bus_dead.id, bus_topics.name, member_group, cause, attempts, 0, key, headers, payload
FROM bus_dead JOIN bus_topics ON bus_topics.id = bus_dead.topic;

DROP TABLE bus_dead;

CREATE INDEX bus_dead_letters_by_topic ON bus_dead_letters (topic);
