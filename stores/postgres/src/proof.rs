//! Whose a server's session is: this connection's own, or one that a pooler lends.

use std::hash::{BuildHasher, RandomState};
use tokio_postgres::Client;

/// Shows whether a server's session was begun by this connection: it has a setting of a value that no other has. A pooler refuses such
/// settings, or its sessions don't have them.
pub(crate) struct Proof(String);

impl Proof {
    /// How to connect so that the session shows this proof.
    pub(crate) fn of(server: &tokio_postgres::Config) -> (Proof, tokio_postgres::Config) {
        // The standard library draws its keys at random.
        let draw = || RandomState::new().hash_one(std::process::id());
        let proof = format!("{:016x}{:016x}", draw(), draw());
        let mut marked = server.clone();
        let before = server.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        marked.options(format!("{before}-c tenure.session={proof}"));
        (Proof(proof), marked)
    }

    /// Asks the server. Without an answer it does not hold.
    pub(crate) async fn holds(&self, client: &Client) -> bool {
        let rows = client.query_typed("SELECT current_setting('tenure.session', true)", &[]).await;
        let found = rows.ok().and_then(|rows| rows.first()?.try_get::<_, Option<String>>(0).ok()?);
        found.as_ref() == Some(&self.0)
    }
}
