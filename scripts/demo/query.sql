CREATE INDEX by_name ON t(name);
CREATE INDEX by_group ON t(grp, v);
SELECT count(*), sum(v), min(name), max(name) FROM t;
SELECT grp, count(*), sum(v) FROM t GROUP BY grp ORDER BY 2 DESC, 1 LIMIT 20;
UPDATE t SET name = name || '/' || grp WHERE v % 5 = 0;
DELETE FROM t WHERE v % 7 = 0;
SELECT group_concat(name) FROM (SELECT name FROM t ORDER BY v DESC, id LIMIT 500);
