//! The writes as functions of the server's, which keeps their plans; and what of them a statement does by itself.
//!
//! One that wrote answers with the version that it gave the row, which has 16 bytes; one that was refused, with the row that stands there as
//! [`standing`] makes it, and with nothing where none stands. A function's own look sees what was committed until then, so what it tells was
//! there when its write was refused, or came between.
//!
//! What a write costs the server is not so much the row as setting up each operator and function of its statement, a digest or a trigger.
//! Hence the client brings what it can know, and [`keep`] and [`raise`] do what most writes are without a call: to a row that tenure itself
//! wrote last, as its transaction's number shows. A renewal or a release doesn't set the fence, so that no trigger has to look at it.
//!
//! The text, with what it takes from here and [`crate::row`], belongs to version 3 of the tables: whoever changes it makes another version. A setting of a function
//! is no part of it.
//!
//! The server plans each statement once in a session, by what the table was then. One of few records is read from end to end sooner than by
//! its index, and that plan stays while the table grows. Hence [`PLANS`].

use crate::row::{columns, whole};

/// Their names.
pub(crate) const WRITES: [&str; 3] = ["write_absent", "write_vacant", "write_unchanged"];

/// A setting of each: rows are found by the index, however few there are. A pooler passes on no settings of connections.
pub(crate) const PLANS: &str = "enable_seqscan=off";

/// What gives those of these names their setting, as tables of before lack it. Whoever does not own them leaves them as they are.
pub(crate) fn set_plans(schema: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let set = |name: &&str| format!("ALTER FUNCTION {schema}.{name} SET enable_seqscan = off; ");
    let all: String = names.iter().map(set).collect();
    format!("DO $plans$ BEGIN {all}EXCEPTION WHEN insufficient_privilege THEN NULL; END $plans$;")
}

/// The statements that make them in a schema, by their names.
pub(crate) fn writes(schema: &str) -> [(&'static str, String); 3] {
    let look = format!("SELECT {} INTO answer FROM {schema}.record AS r WHERE r.key = $1;", standing("r"));
    let insert = |version: &str| {
        format!(
            "INSERT INTO {schema}.record AS t (key, version, fence, tenure, ride_key, ride_fence, record, digest, written, writer)
            VALUES ($1, {version}, $2, $3, $4, $5, $6, $7, clock_timestamp(), pg_current_xact_id()::xid)
            ON CONFLICT DO NOTHING RETURNING t.version INTO answer;
            IF answer IS NULL THEN
                {look}
            END IF;"
        )
    };
    let put = |set: &str, condition: &str| format!("{} INTO answer;", put(schema, set, condition));
    let set = put(SET, &format!("t.version = $9 AND {}", whole("t")));
    // What was written with a tenure has another digest than that of the record alone.
    let raise = put(RAISE, &format!("{VACANT} AND sha256(t.record) = t.digest"));
    let (insert_as_given, insert_as_asked) = (insert("$8"), insert("int8send($8 # $2) || $9"));
    let absent = format!(
        "    CREATE FUNCTION {schema}.write_absent({GIVEN}, bytea) {BEGIN}
        {look}
        IF answer IS NULL THEN
            {insert_as_given}
        END IF;
    {END}"
    );
    let vacant = format!(
        "    CREATE FUNCTION {schema}.write_vacant({GIVEN}, bigint, bytea) {BEGIN}
        {raise}
        IF answer IS NULL THEN
            {look}
            IF answer IS NULL THEN
            {insert_as_asked}
            END IF;
        END IF;
    {END}"
    );
    let unchanged = format!(
        "    CREATE FUNCTION {schema}.write_unchanged({GIVEN}, bytea, bytea) {BEGIN}
        {set}
        IF answer IS NULL THEN
            {look}
        END IF;
    {END}"
    );
    let [first, second, third] = WRITES;
    [(first, absent), (second, vacant), (third, unchanged)]
}

/// Writes over a row whose fence stays, if nobody else wrote it since the version that is expected. Who else did, or whose fence is another one,
/// is left to the function.
pub(crate) fn keep(schema: &str) -> String {
    put(schema, "version = $8", &format!("t.version = $9 AND t.fence = $2 AND {OURS}"))
}

/// Writes over a row that is vacant.
pub(crate) fn raise(schema: &str) -> String {
    put(schema, RAISE, &format!("{VACANT} AND {OURS}"))
}

/// Writes over the row `t` on a condition, with the parameters of the functions.
pub(crate) fn put(schema: &str, set: &str, condition: &str) -> String {
    format!(
        "UPDATE {schema}.record AS t SET {set}, tenure = $3, ride_key = $4, ride_fence = $5, record = $6, digest = $7, \
         written = clock_timestamp(), writer = pg_current_xact_id()::xid WHERE t.key = $1 AND {condition} RETURNING t.version"
    )
}

/// The version and the fence as they are given.
pub(crate) const SET: &str = "version = $8, fence = $2";

/// The fence that is asked for, or a higher one than that which stands; and the version of it.
const RAISE: &str =
    "version = int8send($8 # greatest($2, t.fence + 1)) || $9, fence = greatest($2, t.fence + 1)";

const VACANT: &str = "t.tenure IS NULL AND t.fence < 9223372036854775807";

/// The row's last write was by the transaction that it names, and so by one of these statements. What was restored or changed by hand was
/// written by another; its digest tells then whether it is whole.
const OURS: &str = "t.xmin = t.writer";

/// The parameters of all: $1 key, $2 fence, $3 tenure, $4 and $5 what it is attached to, $6 record, $7 digest. Then $8 the version, and $9 that
/// which is expected; or, where the server may raise the fence, $8 and $9 the halves of the nonce.
const GIVEN: &str = "bytea, bigint, bytea, bytea, bigint, bytea, bytea";

const BEGIN: &str = "RETURNS bytea LANGUAGE plpgsql SET enable_seqscan = off AS $$
    #variable_conflict use_column
    DECLARE answer bytea;
    BEGIN";

const END: &str = "    RETURN answer;
    END $$;";

/// A row as one value, in the server's binary form of rows.
pub(crate) fn standing(row: &str) -> String {
    format!("record_send(ROW({}))", columns(row))
}
