//! Dispatches a request that has passed the gates: the innermost service of the stack.

use super::gateway::Gateway;
use super::request_body::RequestBody;
use super::responses::{self, ResponseBody};
use super::routes::{PathMatch, PathTarget, RouteEntry};
use super::two_step;
use crate::error::{Rejection, RejectionKind};
use crate::policy::{CallerContext, RateLimitHeaders};
use http::{Method, Request, Response};

impl Gateway {
    pub(super) async fn handle_request(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let path = request.uri().path();
        let Some(PathMatch { route, target, .. }) = self.find(path) else {
            // If the client does not yet know how to authenticate, it cannot do so now.
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let document = self.policy.auth.resource_metadata(path).filter(|_| is_read);
            return Ok(responses::resource_metadata(document.ok_or(RejectionKind::RouteNotFound)?));
        };
        let fields = RateLimitHeaders::fields_from(request.extensions());
        let response = match target {
            PathTarget::Run => self.start_run(route, request).await,
            PathTarget::Events(thread_id) => self.read_events(route, thread_id.as_deref().ok(), &request).await,
            PathTarget::Join(run_id) => self.join_run(route, run_id.as_deref().ok(), &request).await,
            PathTarget::Stop(run_id) => self.stop_run(route, run_id.as_deref().ok(), &request).await,
        };
        match response {
            Ok(mut response) => {
                response.headers_mut().extend(fields);
                Ok(response)
            }
            Err(mut rejection) => {
                rejection.headers.extend(fields);
                Err(rejection)
            }
        }
    }

    /// Handles the second step of a two-step run.
    async fn read_events(
        &self,
        route: &RouteEntry,
        thread_id: Option<&str>,
        request: &Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let identity = request.extensions().get::<CallerContext>().and_then(CallerContext::identity);
        self.policy.threads.check_read(&route.read_match, identity, thread_id)?;
        match self.join_last_run(route, thread_id, request).await? {
            Some(response) => Ok(response),
            None => two_step::serve_events(route.two_step.as_ref(), route.client, thread_id, request),
        }
    }
}
