//! What `doctor` says of a Redis server: what of its configuration can lose leases.

use super::findings::{Findings, Grade};
use crate::exit::Failure;
use crate::stores::Url;
use tenure::redis::{RedisConfig, RedisStore};

pub(super) async fn check(url: &Url, findings: &mut Findings) -> Result<(), Failure> {
    let Url::Service(url) = url else { return Ok(()) };
    if !["redis:", "rediss:"].iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(());
    }
    let store = RedisStore::open(RedisConfig::from_url(url)?.push(false).create(false)).await?;
    match store.hazards().await {
        Ok(hazards) if hazards.is_empty() => {
            findings.add(
                Grade::Ok,
                "durability",
                "an append-only file that is synced, and no replicas that lag",
            );
        }
        Ok(hazards) => {
            for hazard in hazards {
                findings.add(
                    Grade::Warn,
                    "durability",
                    format!("{hazard}; fences protect then, and nothing else does"),
                );
            }
        }
        Err(error) => findings.add(Grade::Warn, "durability", error.to_string()),
    }
    Ok(())
}
