DROP FUNCTION refuse_half(TEXT);
