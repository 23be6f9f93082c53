//! A call that has one answer.

use http::uri::PathAndQuery;
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// One call of one member.
pub(crate) async fn unary<Q, A>(
    channel: Channel,
    path: &'static str,
    request: Request<Q>,
) -> Result<A, tonic::Status>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|error| tonic::Status::from_error(error.into()))?;
    let answer = grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await?;
    Ok(answer.into_inner())
}
