-- The last word of a statement that writes several rows together: one that wrote only a part of what belongs together is
-- rolled back as a whole.
CREATE FUNCTION refuse_half(of TEXT) RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'only a part of % could be written', of USING ERRCODE = 'restrict_violation';
END $$;
