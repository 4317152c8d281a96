//! Dispatches a request that has passed the gates: the leaf of the stack.

use super::gateway::Gateway;
use super::responses::{self, ResponseBody, full_body};
use super::routes::PathMatch;
use super::two_step;
use crate::error::{Rejection, RejectionKind};
use crate::guard::{CallerContext, RateLimitHeaders};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;

impl Gateway {
    pub(super) async fn handle_request(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, Rejection> {
        let path = request.uri().path();
        let Some(found) = self.find(path) else {
            // A client that has yet to learn how to authenticate cannot do so now.
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let document = self.guard.auth.resource_metadata(path).filter(|_| is_read);
            return Ok(responses::resource_metadata(document.ok_or(RejectionKind::RouteNotFound)?).map(full_body));
        };
        match found {
            PathMatch::Run(route) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.start_run(route, request).await, headers)
            }
            PathMatch::Events(route, thread_id) => {
                let identity = request.extensions().get::<CallerContext>().and_then(CallerContext::identity);
                self.guard.threads.check_read(&route.read_match, identity, thread_id.as_deref())?;
                if let Some(response) = self.join_last_run(route, thread_id.as_deref(), &request).await? {
                    return Ok(response);
                }
                two_step::serve_events(route.two_step.as_ref(), route.client, thread_id.as_deref(), &request)
            }
            PathMatch::Join(route, _, run_id) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.join_run(route, run_id.as_deref(), &request).await, headers)
            }
            PathMatch::Stop(route, _, run_id) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.stop_run(route, run_id.as_deref(), &request).await, headers)
            }
        }
    }
}

/// Adds the headers of the gates to a response or a rejection.
fn with_headers<B>(
    response: Result<Response<B>, Rejection>,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<Response<B>, Rejection> {
    match response {
        Ok(mut response) => {
            response.headers_mut().extend(headers);
            Ok(response)
        }
        Err(mut rejection) => {
            rejection.headers.extend(headers);
            Err(rejection)
        }
    }
}
