//! The writes as functions of the server's, which keeps their plans: for whoever has a session of one's own or borrows one.
//!
//! They are what the statements of [`crate::write`] are, and answer with the same columns. Those take more than twice the server's time, and
//! serve tables of version 1. This text belongs to version 2 of the tables: whoever changes it makes another version. So it shares no piece
//! with those statements, which may change.

/// The statements that make them in a schema.
pub(crate) fn text(schema: &str) -> String {
    let (begin, end) = (BEGIN, END);
    let look = format!(
        "SELECT r.key, r.version, r.fence, r.tenure, r.ride_key, r.ride_fence, r.record, r.written, clock_timestamp()
            INTO key, version, fence, tenure, ride_key, ride_fence, record, written, now FROM {schema}.record AS r WHERE r.key = $1;"
    );
    let (version, digest) = (version("$4"), digest("$4"));
    let insert = format!(
        "INSERT INTO {schema}.record AS t (key, version, fence, tenure, ride_key, ride_fence, record, digest, written)
            VALUES ($1, {version}, $4, $5, $6, $7, $8,
                {digest},
                clock_timestamp())
            ON CONFLICT DO NOTHING RETURNING t.fence, t.version INTO done, v;
            IF NOT FOUND THEN
            {look}
            END IF;"
    );
    let vacant = "t.tenure IS NULL AND t.fence < 9223372036854775807";
    let (raise, put) =
        (put(schema, "greatest($4, t.fence + 1)", vacant), put(schema, "$4", "t.version = $11"));
    format!(
        "
    CREATE FUNCTION {schema}.write_absent{begin}
        {look}
        IF NOT FOUND THEN
            {insert}
        END IF;
{end}
    CREATE FUNCTION {schema}.write_vacant{begin}
        {raise}
        IF NOT FOUND THEN
            {look}
            IF NOT FOUND THEN
            {insert}
            END IF;
        END IF;
{end}
    CREATE FUNCTION {schema}.write_unchanged{begin}
        {put}
        IF NOT FOUND THEN
            {look}
        END IF;
{end}
"
    )
}

/// Parameters: $1 key, $2 and $3 the halves of the nonce, $4 fence, $5 tenure, $6 and $7 what it is attached to, $8 record. Then: $9 channel, $10
/// whether to tell there, $11 the version that is expected.
const BEGIN: &str = "(bytea, bigint, bytea, bigint, bytea, bytea, bigint, bytea, text, boolean, bytea,
        OUT done bigint, OUT key bytea, OUT version bytea, OUT fence bigint, OUT tenure bytea, OUT ride_key bytea,
        OUT ride_fence bigint, OUT record bytea, OUT written timestamptz, OUT now timestamptz) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE v bytea;
    BEGIN";

const END: &str = "        IF done IS NOT NULL AND $10 THEN
            PERFORM pg_notify($9, encode(v, 'hex') || ' ' || encode($1, 'hex'));
        END IF;
    END $$;";

/// Writes over the row that is there, on a condition, if nobody has changed it around tenure.
fn put(schema: &str, fence: &str, condition: &str) -> String {
    let (version, digest) = (version(fence), digest(fence));
    format!(
        "UPDATE {schema}.record AS t SET version = {version}, fence = {fence}, tenure = $5, ride_key = $6, ride_fence = $7, record = $8,
            digest = {digest},
            written = clock_timestamp()
        WHERE t.key = $1 AND {condition}
            AND sha256(t.version || int8send(t.fence) || coalesce(t.tenure, ''::bytea) || coalesce(t.ride_key, ''::bytea) || int8send(coalesce(t.ride_fence, -1)) || t.record) = t.digest
        RETURNING t.fence, t.version INTO done, v;"
    )
}

fn version(fence: &str) -> String {
    format!("int8send($2 # {fence}) || $3")
}

fn digest(fence: &str) -> String {
    let version = version(fence);
    format!(
        "sha256({version} || int8send({fence}) || coalesce($5, ''::bytea) || coalesce($6, ''::bytea) || int8send(coalesce($7, -1)) || $8)"
    )
}
