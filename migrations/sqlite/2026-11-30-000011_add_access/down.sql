DROP INDEX keys_from_headers;
DROP TABLE agent_spending;
DROP TRIGGER charges_asker_is_frozen;
DROP INDEX charges_asked_by;
ALTER TABLE charges DROP COLUMN asked_session;
ALTER TABLE charges DROP COLUMN asked_request;
ALTER TABLE charges DROP COLUMN asked_key;
