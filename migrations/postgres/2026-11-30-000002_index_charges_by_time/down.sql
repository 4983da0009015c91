DROP INDEX charges_by_time;
