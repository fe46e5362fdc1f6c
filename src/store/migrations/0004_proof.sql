-- A known text, sealed: it opens with the store's own key alone.
ALTER TABLE owner ADD COLUMN proof BLOB;
