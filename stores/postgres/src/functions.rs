//! The writes as functions of the server's, which keeps their plans: for whoever has a session of one's own or borrows one.
//!
//! They are what the statements of [`crate::write`] are, and answer with the same columns. Those take more than twice the server's time, and
//! serve tables of version 1. This text belongs to version 2 of the tables: whoever changes it makes another version.

/// Parameters: $1 key, $2 and $3 the halves of the nonce, $4 fence, $5 tenure, $6 and $7 what it rides on, $8 record, $9 channel, $10
/// whether to tell there, $11 the version that is expected.
pub(crate) const STEP: &str = "
    CREATE FUNCTION {s}.write_absent(bytea, bigint, bytea, bigint, bytea, bytea, bigint, bytea, text, boolean, bytea,
        OUT done bigint, OUT key bytea, OUT version bytea, OUT fence bigint, OUT tenure bytea, OUT ride_key bytea,
        OUT ride_fence bigint, OUT record bytea, OUT written timestamptz, OUT now timestamptz) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE v bytea;
    BEGIN
        SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {s}.record AS r WHERE r.key = $1;
        IF NOT FOUND THEN
            INSERT INTO {s}.record AS t (key, version, fence, tenure, ride_key, ride_fence, record, digest, written)
            VALUES ($1, int8send($2 # $4) || $3, $4, $5, $6, $7, $8,
                sha256(int8send($2 # $4) || $3 || int8send($4) || coalesce($5, ''::bytea) || coalesce($6, ''::bytea) || int8send(coalesce($7, -1)) || $8),
                clock_timestamp())
            ON CONFLICT DO NOTHING RETURNING t.fence, t.version INTO done, v;
            IF NOT FOUND THEN
            SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {s}.record AS r WHERE r.key = $1;
            END IF;
        END IF;
        IF done IS NOT NULL AND $10 THEN
            PERFORM pg_notify($9, encode(v, 'hex') || ' ' || encode($1, 'hex'));
        END IF;
    END $$;
    CREATE FUNCTION {s}.write_vacant(bytea, bigint, bytea, bigint, bytea, bytea, bigint, bytea, text, boolean, bytea,
        OUT done bigint, OUT key bytea, OUT version bytea, OUT fence bigint, OUT tenure bytea, OUT ride_key bytea,
        OUT ride_fence bigint, OUT record bytea, OUT written timestamptz, OUT now timestamptz) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE v bytea;
    BEGIN
        UPDATE {s}.record AS t SET version = int8send($2 # greatest($4, t.fence + 1)) || $3, fence = greatest($4, t.fence + 1), tenure = $5, ride_key = $6, ride_fence = $7, record = $8,
            digest = sha256(int8send($2 # greatest($4, t.fence + 1)) || $3 || int8send(greatest($4, t.fence + 1)) || coalesce($5, ''::bytea) || coalesce($6, ''::bytea) || int8send(coalesce($7, -1)) || $8),
            written = clock_timestamp()
        WHERE t.key = $1 AND t.tenure IS NULL AND t.fence < 9223372036854775807
            AND sha256(t.version || int8send(t.fence) || coalesce(t.tenure, ''::bytea) || coalesce(t.ride_key, ''::bytea) || int8send(coalesce(t.ride_fence, -1)) || t.record) = t.digest
        RETURNING t.fence, t.version INTO done, v;
        IF NOT FOUND THEN
            SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {s}.record AS r WHERE r.key = $1;
            IF NOT FOUND THEN
            INSERT INTO {s}.record AS t (key, version, fence, tenure, ride_key, ride_fence, record, digest, written)
            VALUES ($1, int8send($2 # $4) || $3, $4, $5, $6, $7, $8,
                sha256(int8send($2 # $4) || $3 || int8send($4) || coalesce($5, ''::bytea) || coalesce($6, ''::bytea) || int8send(coalesce($7, -1)) || $8),
                clock_timestamp())
            ON CONFLICT DO NOTHING RETURNING t.fence, t.version INTO done, v;
            IF NOT FOUND THEN
            SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {s}.record AS r WHERE r.key = $1;
            END IF;
            END IF;
        END IF;
        IF done IS NOT NULL AND $10 THEN
            PERFORM pg_notify($9, encode(v, 'hex') || ' ' || encode($1, 'hex'));
        END IF;
    END $$;
    CREATE FUNCTION {s}.write_unchanged(bytea, bigint, bytea, bigint, bytea, bytea, bigint, bytea, text, boolean, bytea,
        OUT done bigint, OUT key bytea, OUT version bytea, OUT fence bigint, OUT tenure bytea, OUT ride_key bytea,
        OUT ride_fence bigint, OUT record bytea, OUT written timestamptz, OUT now timestamptz) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE v bytea;
    BEGIN
        UPDATE {s}.record AS t SET version = int8send($2 # $4) || $3, fence = $4, tenure = $5, ride_key = $6, ride_fence = $7, record = $8,
            digest = sha256(int8send($2 # $4) || $3 || int8send($4) || coalesce($5, ''::bytea) || coalesce($6, ''::bytea) || int8send(coalesce($7, -1)) || $8),
            written = clock_timestamp()
        WHERE t.key = $1 AND t.version = $11
            AND sha256(t.version || int8send(t.fence) || coalesce(t.tenure, ''::bytea) || coalesce(t.ride_key, ''::bytea) || int8send(coalesce(t.ride_fence, -1)) || t.record) = t.digest
        RETURNING t.fence, t.version INTO done, v;
        IF NOT FOUND THEN
            SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {s}.record AS r WHERE r.key = $1;
        END IF;
        IF done IS NOT NULL AND $10 THEN
            PERFORM pg_notify($9, encode(v, 'hex') || ' ' || encode($1, 'hex'));
        END IF;
    END $$;
";
