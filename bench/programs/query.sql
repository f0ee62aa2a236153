PRAGMA cache_size = -200000;
PRAGMA synchronous = OFF;
PRAGMA journal_mode = MEMORY;
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, grp INT, v INT);
.import --csv rows.csv t
CREATE INDEX by_name ON t(name);
SELECT count(*), sum(v), min(name), max(name) FROM t;
SELECT grp, count(*), sum(v) FROM t GROUP BY grp ORDER BY 2 DESC, 1 LIMIT 20;
UPDATE t SET name = name || '/' || grp WHERE v % 5 = 0;
SELECT group_concat(name) FROM (SELECT name FROM t ORDER BY v DESC, id LIMIT 500);
SELECT sum(length(json_object('id', id, 'name', name, 'tags', json_array(grp, v)))) FROM t WHERE id % 4 = 0;
