-- Nothing: PostgreSQL needs a function here, and both sets of migrations have the same versions.
SELECT 1;
