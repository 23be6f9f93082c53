//! Conditional writes: one script for one write or many, which answers with what it found.

use crate::client::RedisClient;
use crate::error::refused_in_script;
use crate::scripts::Invocation;
use crate::value::{ServerTime, damaged, stored, timed, untimed, version_digits};
use redis::Value;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{Fence, Key, Record, StoreError, Version};

/// A write as the arguments of the script.
pub(crate) struct ScriptDraft {
    write: Write,
    expected: Vec<u8>,
    value: Vec<u8>,
    is_news: &'static str,
}

impl ScriptDraft {
    pub(crate) fn new(write: Write) -> Result<ScriptDraft, StoreError> {
        Ok(ScriptDraft {
            expected: match write.expect {
                Expect::Absent => b"absent".to_vec(),
                Expect::Vacant => b"vacant".to_vec(),
                Expect::Unchanged(version) => version_digits(version),
            },
            value: untimed(&write.record)?,
            is_news: if is_news(&write.record) { "1" } else { "0" },
            write,
        })
    }

    fn arguments(&self) -> [&[u8]; 4] {
        [self.write.key.as_str().as_bytes(), &self.expected, &self.value, self.is_news.as_bytes()]
    }

    /// What came of it.
    fn judge(&self, inner: &RedisClient, now: ServerTime, answer: &Value) -> Result<Outcome, StoreError> {
        let Write { key, expect, record } = &self.write;
        let standing = match verdict(inner, key, answer)? {
            ScriptVerdict::Done(raised) => {
                let fence = raised.unwrap_or(record.fence);
                return Ok(Outcome::Won { version: Version::of(record.nonce, fence), fence });
            }
            ScriptVerdict::Refused(standing) => standing,
        };
        let standing = standing.map(|value| stored(key, inner.told(now), value)).transpose()?;
        if let (Expect::Vacant, Some(standing)) = (expect, &standing)
            && standing.record.tenure.is_none()
        {
            // Nothing else than a used-up fence stands in the way.
            standing.record.fence.next(record.fence)?;
        }
        Ok(Outcome::Lost(standing))
    }
}

/// What others wait for: an end, or mail. A successor is found by the script itself.
fn is_news(record: &Record) -> bool {
    record.tenure.as_ref().is_none_or(|tenure| !tenure.mail.is_empty())
}

/// What a script did with one key.
enum ScriptVerdict<'a> {
    /// It was done, with this fence if it was raised.
    Done(Option<Fence>),
    /// It was not; this stands there.
    Refused(Option<&'a [u8]>),
}

fn verdict<'a>(inner: &RedisClient, key: &Key, answer: &'a Value) -> Result<ScriptVerdict<'a>, StoreError> {
    let unclear = || {
        StoreError::unknown(format!(
            "{}: a write was answered unclearly: {answer:?}",
            inner.connections.place
        ))
    };
    let pair = match answer {
        Value::Int(1) => return Ok(ScriptVerdict::Done(None)),
        Value::Nil => return Ok(ScriptVerdict::Refused(None)),
        Value::BulkString(standing) => return Ok(ScriptVerdict::Refused(Some(standing))),
        Value::Array(pair) => pair,
        _ => return Err(unclear()),
    };
    match pair.as_slice() {
        [Value::Int(1), Value::BulkString(fence)] => {
            let fence = std::str::from_utf8(fence).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            fence.map(|fence| ScriptVerdict::Done(Some(Fence(fence)))).ok_or_else(unclear)
        }
        [Value::Int(2), Value::BulkString(value)] => Err(damaged(key, value)),
        [Value::Int(3), Value::BulkString(says)] => {
            Err(refused_in_script(&inner.connections.place, &String::from_utf8_lossy(says)))
        }
        _ => Err(unclear()),
    }
}

fn is_done(answer: &Value) -> bool {
    match answer {
        Value::Array(pair) => pair.first() == Some(&Value::Int(1)),
        answer => *answer == Value::Int(1),
    }
}

/// What became of one write: whether it was done, and what it comes to.
pub(crate) struct WriteResult {
    pub(crate) is_done: bool,
    pub(crate) outcome: Result<Outcome, StoreError>,
}

/// Sends writes in one script. The second result is whether replicas have confirmed what was done.
pub(crate) async fn send(
    inner: &RedisClient,
    drafts: &[&ScriptDraft],
) -> Result<(Vec<WriteResult>, Result<(), StoreError>), StoreError> {
    let script = Invocation::new(&inner.scripts.write, &inner.keys)
        .arg(inner.channel.as_bytes())
        .args(drafts.iter().flat_map(|draft| draft.arguments()));
    let written = inner.connections.write(&script).await?;
    let (now, answers) = timed(&inner.connections.place, &written.answer)?;
    if answers.len() != drafts.len() {
        return Err(StoreError::unknown(format!(
            "{}: not all writes were answered",
            inner.connections.place
        )));
    }
    let judged = drafts.iter().zip(answers);
    let sent: Vec<WriteResult> = judged
        .map(|(draft, answer)| WriteResult {
            is_done: is_done(answer),
            outcome: draft.judge(inner, now, answer),
        })
        .collect();
    if sent.iter().any(|sent| sent.is_done) {
        return Ok((sent, written.confirm().await));
    }
    written.refused().await?;
    Ok((sent, Ok(())))
}

pub(crate) async fn many(inner: &RedisClient, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
    let drafts: Vec<ScriptDraft> = writes.into_iter().map(ScriptDraft::new).collect::<Result<_, _>>()?;
    let (sent, confirmed) = send(inner, &drafts.iter().collect::<Vec<_>>()).await?;
    confirmed?;
    let has_written = sent.iter().any(|sent| sent.is_done);
    match sent.into_iter().map(|sent| sent.outcome).collect() {
        // The rest has taken effect, so whatever is wrong with one leaves the whole unknown.
        Err(error) if has_written => Err(StoreError::unknown(error.to_string()).because(error)),
        outcomes => outcomes,
    }
}

pub(crate) async fn remove(inner: &RedisClient, key: &Key, version: Version) -> Result<bool, StoreError> {
    let expected = version_digits(version);
    let script =
        Invocation::new(&inner.scripts.remove, &inner.keys).arg(key.as_str().as_bytes()).arg(&expected);
    let written = inner.connections.write(&script).await?;
    let (now, answers) = timed(&inner.connections.place, &written.answer)?;
    let [answer] = answers else {
        return Err(StoreError::unknown(format!("{}: a removal was not answered", inner.connections.place)));
    };
    match verdict(inner, key, answer)? {
        ScriptVerdict::Done(_) => written.confirm().await.map(|()| true),
        // One that can't be understood is not merely another version.
        ScriptVerdict::Refused(standing) => {
            let standing = standing.map(|value| stored(key, inner.told(now), value)).transpose();
            written.refused().await?;
            standing.map(|_| false)
        }
    }
}
