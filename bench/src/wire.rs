//! What goes over the wire to DynamoDB: a relay on loopback that counts requests by action, and what the service charges for
//! them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WRITES: [&str; 5] = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"];
const READS: [&str; 4] = ["GetItem", "BatchGetItem", "Query", "Scan"];

/// Requests, and capacity units as the service tells them.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct RequestCounts {
    /// How many of each action.
    pub requests: BTreeMap<String, u64>,
    /// What writes cost. A refused one tells no units; it counts as one.
    pub write_units: f64,
    /// What reads cost.
    pub read_units: f64,
}

impl RequestCounts {
    /// Requests that write.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.of(&WRITES)
    }

    /// Requests that read.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.of(&READS)
    }

    fn of(&self, actions: &[&str]) -> u64 {
        actions.iter().filter_map(|action| self.requests.get(*action)).sum()
    }
}

/// Stands between clients and the service.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Where clients find it.
    pub endpoint: String,
    counted: Arc<Mutex<RequestCounts>>,
}

impl Relay {
    /// Passes everything on to `service`, `http://ADDRESS`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(service: &str) -> io::Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let relay = Relay { endpoint, counted: Arc::default() };
        let (counted, service) =
            (Arc::clone(&relay.counted), service.trim_start_matches("http://").to_owned());
        tokio::spawn(async move {
            loop {
                // Where there are too many connections, the next one waits until there are fewer.
                let Ok((client, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let (counted, service) = (Arc::clone(&counted), service.clone());
                // A connection that breaks off is its client's affair.
                tokio::spawn(async move { serve(client, &service, &counted).await.ok() });
            }
        });
        Ok(relay)
    }

    /// What went over it since the last call.
    #[must_use]
    pub fn take(&self) -> RequestCounts {
        std::mem::take(&mut *self.counted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn serve(mut client: TcpStream, service: &str, counted: &Mutex<RequestCounts>) -> io::Result<()> {
    let mut onward = TcpStream::connect(service).await?;
    client.set_nodelay(true)?;
    onward.set_nodelay(true)?;
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    while let Some(request) = message(&mut client, &mut asked).await? {
        let target = header(&request.head, "x-amz-target").unwrap_or_default();
        let action = target.rsplit('.').next().unwrap_or_default().to_owned();
        let request = if READS.contains(&&*action) || WRITES.contains(&&*action) {
            request.asking_for_units()
        } else {
            request
        };
        onward.write_all(&[request.head.as_bytes(), &request.body].concat()).await?;
        let Some(answer) = message(&mut onward, &mut answered).await? else { break };
        note(&mut counted.lock().unwrap_or_else(PoisonError::into_inner), action, &answer);
        client.write_all(&[answer.head.as_bytes(), &answer.body].concat()).await?;
    }
    Ok(())
}

fn note(counted: &mut RequestCounts, action: String, answer: &Message) {
    let body = String::from_utf8_lossy(&answer.body);
    let units: f64 = body
        .split("\"CapacityUnits\":")
        .skip(1)
        .filter_map(|rest| rest.split([',', '}']).next()?.trim().parse::<f64>().ok())
        .sum();
    if WRITES.contains(&&*action) {
        counted.write_units += if answer.head.starts_with("HTTP/1.1 200") { units } else { 1.0 };
    } else {
        counted.read_units += units;
    }
    *counted.requests.entry(action).or_default() += 1;
}

/// A request or an answer.
struct Message {
    head: String,
    body: Vec<u8>,
}

impl Message {
    /// The same request, whose answer tells what it cost.
    fn asking_for_units(self) -> Message {
        let text = String::from_utf8_lossy(&self.body);
        let Some(rest) = text.strip_prefix('{').filter(|_| !text.contains("\"ReturnConsumedCapacity\""))
        else {
            return self;
        };
        let body = format!("{{\"ReturnConsumedCapacity\":\"TOTAL\",{rest}");
        let head = self.head.lines().filter(|line| !line.is_empty()).map(|line| match line.split_once(':') {
            Some((name, _)) if name.eq_ignore_ascii_case("content-length") => {
                format!("{name}: {}\r\n", body.len())
            }
            _ => format!("{line}\r\n"),
        });
        Message { head: head.collect::<String>() + "\r\n", body: body.into_bytes() }
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The next message of a connection; `pending` keeps what came after it.
async fn message(stream: &mut TcpStream, pending: &mut Vec<u8>) -> io::Result<Option<Message>> {
    loop {
        if let Some(end) = pending.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4) {
            let head = String::from_utf8_lossy(&pending[..end]).into_owned();
            let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            while pending.len() < end + length {
                if stream.read_buf(pending).await? == 0 {
                    return Ok(None);
                }
            }
            let rest = pending.split_off(end + length);
            let mut whole = std::mem::replace(pending, rest);
            return Ok(Some(Message { head, body: whole.split_off(end) }));
        }
        if stream.read_buf(pending).await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: two requests on one connection go on and back whole, asked for their units, and are counted with what the answers
    //! tell; a refused write counts as one unit; what can't be charged is passed on as it was.
    use super::*;

    fn text(head: &str, body: &str) -> Vec<u8> {
        format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    /// A service that gives these answers, one after the other, and keeps what it was asked.
    async fn service(answers: Vec<Vec<u8>>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut pending, mut asked) = (Vec::new(), Vec::new());
            for answer in answers {
                let request = message(&mut stream, &mut pending).await.unwrap().unwrap();
                asked.push(format!("{}{}", request.head, String::from_utf8(request.body).unwrap()));
                stream.write_all(&answer).await.unwrap();
            }
            asked
        });
        (endpoint, asked)
    }

    #[tokio::test]
    async fn requests_are_counted_with_their_units() {
        let answers = vec![
            text("HTTP/1.1 200 OK", "{\"ConsumedCapacity\":{\"TableName\":\"t\",\"CapacityUnits\":2.5}}"),
            text("HTTP/1.1 400 Bad Request", "{\"__type\":\"ConditionalCheckFailedException\"}"),
            text("HTTP/1.1 200 OK", "{}"),
        ];
        let (endpoint, asked) = service(answers.clone()).await;
        let relay = Relay::start(&endpoint).await.unwrap();
        let mut client = TcpStream::connect(relay.endpoint.trim_start_matches("http://")).await.unwrap();
        let mut pending = Vec::new();
        for (action, answer) in ["Scan", "UpdateItem", "DescribeTable"].into_iter().zip(&answers) {
            let head = format!("POST / HTTP/1.1\r\nx-amz-target: DynamoDB_20120810.{action}");
            client.write_all(&text(&head, "{\"TableName\":\"t\"}")).await.unwrap();
            let got = message(&mut client, &mut pending).await.unwrap().unwrap();
            assert_eq!([got.head.into_bytes(), got.body].concat(), *answer);
        }
        let counted = relay.take();
        assert_eq!((counted.reads(), counted.read_units), (1, 2.5));
        assert_eq!((counted.writes(), counted.write_units), (1, 1.0));
        assert_eq!(counted.requests.len(), 3);
        assert_eq!(relay.take(), RequestCounts::default());
        let asked = asked.await.unwrap();
        let charged = "{\"ReturnConsumedCapacity\":\"TOTAL\",\"TableName\":\"t\"}";
        assert!(
            asked[0].ends_with(&format!("Content-Length: {}\r\n\r\n{charged}", charged.len())),
            "{asked:?}"
        );
        assert!(asked[2].ends_with("\r\n\r\n{\"TableName\":\"t\"}"), "{asked:?}");
    }
}
