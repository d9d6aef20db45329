-- Which key seals what must not be readable here. One for a database: a node with another could open nothing.
CREATE TABLE seal (
    place    BIGINT NOT NULL PRIMARY KEY CHECK (place = 1),
    key_name TEXT   NOT NULL
);
