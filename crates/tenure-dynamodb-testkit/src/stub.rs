//! A server on loopback that answers as it is told, or stands between a client and the real one.

use super::endpoint;
use aws_smithy_types::date_time::{DateTime, Format as DateTimeFormat};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Fate {
    /// It is answered with this status and body.
    Answer(u16, String),
    /// It goes on to the real service, and the answer comes back.
    Through,
    /// It goes on to the real service, and the answer comes back with another date: so many seconds later, or none at all.
    Redated(Option<i64>),
    /// It goes on to the real service, and the answer is lost.
    AnswerLost,
    /// It goes on to the real service this much later, whoever still waits for the answer.
    Late(Duration),
    /// It goes on to the real service, and once more this much later.
    Twice(Duration),
    /// It gets nowhere, and the connection is cut.
    RequestLost,
    /// Nothing happens.
    Silence,
}

impl Fate {
    /// A refusal as DynamoDB words it.
    #[must_use]
    pub fn refusal(status: u16, code: &str, message: &str) -> Fate {
        let body =
            format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",\"message\":\"{message}\"}}");
        Fate::Answer(status, body)
    }
}

/// A request as it came: its head, its body.
#[derive(Debug, Clone)]
pub struct StubRequest(String, Vec<u8>);

impl StubRequest {
    /// Delivers it once more, as a network may, and says what the service answers.
    pub async fn repeat(&self) -> String {
        String::from_utf8_lossy(&pass_on(&self.0, &self.1).await).into_owned()
    }

    /// What it asks for.
    #[must_use]
    pub fn body(&self) -> serde_json::Value {
        serde_json::from_slice(&self.1).unwrap()
    }
}

/// Where a stub listens, and what it was asked.
#[derive(Debug, Clone)]
pub struct Stub {
    /// Where it listens, as a URL.
    pub endpoint: String,
    asked: Arc<Mutex<Vec<StubRequest>>>,
}

impl Stub {
    /// `decide` gets the action and the body of each request.
    pub async fn start(decide: impl Fn(&str, &str) -> Fate + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (asked, decide) = (Arc::default(), Arc::new(decide));
        let stub = Stub { endpoint, asked: Arc::clone(&asked) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, decide) = (Arc::clone(&asked), Arc::clone(&decide));
                tokio::spawn(async move { serve(stream, &asked, &*decide).await });
            }
        });
        stub
    }

    /// How many requests came since the last call.
    pub fn take(&self) -> usize {
        std::mem::take(&mut *self.asked.lock().unwrap()).len()
    }

    /// All requests of this action since the last [`Stub::take`].
    #[must_use]
    pub fn requests(&self, action: &str) -> Vec<StubRequest> {
        let asked = self.asked.lock().unwrap();
        let is_of = |request: &&StubRequest| {
            header(&request.0, "x-amz-target").is_some_and(|name| name.ends_with(action))
        };
        asked.iter().filter(is_of).cloned().collect()
    }

    /// The last request.
    #[must_use]
    pub fn last(&self) -> StubRequest {
        self.asked.lock().unwrap().last().cloned().expect("there was a request")
    }
}

/// One request; the connection is then closed, so that each comes on one of its own.
async fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<StubRequest>>,
    decide: &(dyn Fn(&str, &str) -> Fate + Send + Sync),
) {
    let Some(request) = message(&mut stream).await else { return };
    let StubRequest(head, body) = &request;
    asked.lock().unwrap().push(request.clone());
    let target = header(head, "x-amz-target").unwrap_or_default();
    let action = target.rsplit('.').next().unwrap_or_default();
    let answer = match decide(action, &String::from_utf8_lossy(body)) {
        Fate::Answer(status, body) => {
            let bytes = body.len();
            // The date is another one than today's, as a service's may be.
            format!(
                "HTTP/1.1 {status} Told\r\ndate: Sat, 21 Nov 2026 09:08:56 GMT\r\ncontent-type: application/x-amz-json-1.0\r\n\
                 content-length: {bytes}\r\nconnection: close\r\n\r\n{body}"
            )
            .into_bytes()
        }
        Fate::Through => pass_on(head, body).await,
        Fate::Redated(later) => redated(pass_on(head, body).await, later),
        Fate::AnswerLost => {
            pass_on(head, body).await;
            return;
        }
        Fate::Late(later) => {
            tokio::time::sleep(later).await;
            pass_on(head, body).await
        }
        Fate::Twice(later) => {
            let again = request.clone();
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                again.repeat().await
            });
            pass_on(head, body).await
        }
        Fate::RequestLost => return,
        Fate::Silence => return std::future::pending().await,
    };
    // A client that has given up is not a mistake of ours.
    let _ = stream.write_all(&answer).await;
    let _ = stream.shutdown().await;
}

async fn pass_on(head: &str, body: &[u8]) -> Vec<u8> {
    let service = endpoint();
    let mut onward = TcpStream::connect(service.trim_start_matches("http://")).await.unwrap();
    let head = head.trim_end_matches("\r\n");
    onward.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    onward.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    onward.read_to_end(&mut answer).await.unwrap();
    answer
}

fn redated(answer: Vec<u8>, later: Option<i64>) -> Vec<u8> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&answer[..end]);
    let date = header(&head, "date").expect("the service dates its answers");
    let line = head.lines().find(|line| line.to_lowercase().starts_with("date:")).expect("a line of it");
    let replaced = match later {
        None => head.replace(&format!("{line}\r\n"), ""),
        Some(seconds) => {
            let date = DateTime::from_str(date, DateTimeFormat::HttpDate).unwrap();
            let date = DateTime::from_secs(date.secs() + seconds).fmt(DateTimeFormat::HttpDate).unwrap();
            head.replace(line, &format!("date: {date}"))
        }
    };
    [replaced.as_bytes(), &answer[end..]].concat()
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The head of a request and its body.
async fn message(stream: &mut TcpStream) -> Option<StubRequest> {
    let mut bytes = Vec::new();
    let mut part = [0; 16 * 1024];
    loop {
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        let length: usize =
            header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            return Some(StubRequest(head, bytes.split_off(end + 4)));
        }
    }
}
