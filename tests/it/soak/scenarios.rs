//! What the clients of the load do, one function for each.

use super::super::auth::idp::{Signer, claims};
use super::super::laws::dice::Dice;
use super::super::support::client::End;
use super::agents::PlanBook;
use super::connection::{EventFrame, LoadRequest, Transcript, frames};
use super::fleet::{CALLERS, REPLAY_AGE};
use super::judge;
use super::plan::{RouteKind, RunPlan};
use super::report::SoakReport;
use super::situation::Situation;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Attempts to come back before a client gives up.
const MOST_RETURNS: usize = 40;

/// Everything that a client needs.
pub struct LoadContext {
    pub seed: u64,
    pub data: [SocketAddr; 2],
    pub plans: Arc<PlanBook>,
    pub situation: Situation,
    pub report: Arc<SoakReport>,
    pub signer: Signer,
}

/// One client in one scenario.
struct LoadClient<'a> {
    context: &'a LoadContext,
    plan: &'a RunPlan,
    dice: Dice,
    start: Instant,
    /// a field with its credential
    credential: (&'static str, String),
}

/// What happened: the outcome, or what is wrong and the evidence.
type Outcome = Result<String, (String, String)>;

/// Plays the scenario of this number and judges it.
pub async fn play(context: &LoadContext, number: u64) {
    let mut dice = Dice::new(context.seed.wrapping_add(number.wrapping_mul(0x9E37)));
    (0..8).for_each(|_| _ = dice.below(2));
    let (scenario, kind) = match dice.below(100) {
        0..40 => ("stay", RouteKind::Plain),
        40..48 => ("stay", RouteKind::Kept),
        48..54 => ("stay", RouteKind::AgentTwoSteps),
        54..60 => ("two steps", RouteKind::ClientTwoSteps),
        60..68 => ("leave", RouteKind::Plain),
        68..86 => ("return", RouteKind::Kept),
        86..90 => ("stop", RouteKind::Kept),
        90..92 => ("slow", RouteKind::Plain),
        _ => ("bad request", RouteKind::Kept),
    };
    let plan = Arc::new(RunPlan::new(context.seed, number, kind, scenario == "slow"));
    context.plans.add(&plan);
    let credential = if dice.one_in(2) {
        ("x-api-key", format!("{}-key", CALLERS[dice.below(CALLERS.len())]))
    } else {
        // Good for longer than the longest run with all its returns.
        let mut claims = claims("soak");
        claims["exp"] = (claims["iat"].as_u64().expect("seconds") + 600).into();
        ("authorization", format!("Bearer {}", context.signer.token_with_claims(&claims)))
    };
    let mut client = LoadClient { context, plan: &plan, dice, start: Instant::now(), credential };
    let outcome = match scenario {
        "stay" => client.stay().await,
        "slow" => client.read_slowly().await,
        "two steps" => client.take_two_steps().await,
        "leave" => client.leave().await,
        "return" => client.come_back().await,
        "stop" => client.stop().await,
        _ => client.send_bad_request().await,
    };
    context.plans.remove(number);
    match outcome {
        Ok(outcome) => context.report.count_run(plan.client, plan.agent, scenario, &outcome),
        Err((what, evidence)) => {
            let facts = format!(
                "{scenario} {number}: {}, {:?}, {:?} to {:?}, {:?}, piece {}, pause {} ms\nbegan {:.3} s ago",
                plan.path(),
                plan.fault,
                plan.agent_framing,
                plan.client_framing,
                plan.body_end,
                plan.piece,
                plan.pause_ms,
                client.start.elapsed().as_secs_f64()
            );
            let wire = String::from_utf8_lossy(&plan.wire).into_owned();
            context.report.count_run(plan.client, plan.agent, scenario, "violation");
            context.report.add_violation(
                &format!("{scenario}: {what}"),
                &format!(
                    "{facts}\n\n--- received\n{evidence}\n--- the agent's body\n{wire}\n--- the request\n{}",
                    plan.body.chars().take(2000).collect::<String>()
                ),
            );
        }
    }
}

impl LoadClient<'_> {
    fn replica(&mut self) -> SocketAddr {
        self.context.data[self.dice.below(2)]
    }

    /// The request that starts the run.
    fn request(&mut self) -> LoadRequest {
        let accept = match self.plan.client_framing {
            diglot::codec::Framing::Proto => "application/vnd.ag-ui.event+proto",
            diglot::codec::Framing::Sse => "text/event-stream",
        };
        let over_h2 = self.dice.one_in(3);
        let request = LoadRequest::post(&self.plan.path(), &self.plan.body).with_field("accept", accept);
        self.with_credential(LoadRequest { over_h2, ..request })
    }

    fn get(&mut self, path: &str, cursor: Option<&str>) -> LoadRequest {
        let over_h2 = self.dice.one_in(3);
        let request = LoadRequest::get(path).with_field("accept", "text/event-stream");
        let request = cursor.into_iter().fold(request, |request, id| request.with_field("last-event-id", id));
        self.with_credential(LoadRequest { over_h2, ..request })
    }

    fn with_credential(&self, request: LoadRequest) -> LoadRequest {
        let (name, value) = &self.credential;
        match self.plan.kind {
            RouteKind::Plain | RouteKind::AgentTwoSteps => request,
            RouteKind::Kept | RouteKind::ClientTwoSteps => request.with_field(name, value.as_str()),
        }
    }

    async fn open(&self, to: SocketAddr, request: &LoadRequest) -> Result<Transcript, (String, String)> {
        let start = Instant::now();
        match Transcript::open(to, request).await {
            Some(answer) => {
                if request.method == "POST" && answer.status == 200 {
                    self.context.report.note_first_event(start.elapsed());
                }
                Ok(answer)
            }
            None => Err((
                "no answer".to_owned(),
                format!("{} {}, HTTP/2 {}", request.method, request.path, request.over_h2),
            )),
        }
    }

    fn judge(&self, answer: &Transcript) -> Outcome {
        judge::judge_run(self.plan, &self.context.situation, self.start, answer).map_err(|what| (what, answer.show()))
    }

    /// Reads the run to its end.
    async fn stay(&mut self) -> Outcome {
        let (to, request) = (self.replica(), self.request());
        let mut answer = self.open(to, &request).await?;
        answer.read_to_end().await;
        if self.plan.kind == RouteKind::Kept && answer.status == 200 {
            judge::check_ids(&frames(&answer.body)).map_err(|what| (what, answer.show()))?;
        }
        self.judge(&answer)
    }

    /// Reads a large run into a small buffer.
    async fn read_slowly(&mut self) -> Outcome {
        let (to, request) = (self.replica(), self.request());
        let request = LoadRequest { small_buffer: true, over_h2: false, ..request };
        let mut answer = self.open(to, &request).await?;
        while answer.read_piece().await {
            sleep(Duration::from_millis(10)).await;
        }
        self.judge(&answer)
    }

    /// Leaves in the middle.
    async fn leave(&mut self) -> Outcome {
        let (to, request) = (self.replica(), self.request());
        let mut answer = self.open(to, &request).await?;
        if answer.status != 200 || self.plan.client_framing == diglot::codec::Framing::Proto {
            answer.read_to_end().await;
            return self.judge(&answer);
        }
        answer.read_frames(self.dice.below(1 + judge::frame_count(self.plan))).await;
        judge::check_beginning(self.plan, &frames(&answer.body)).map_err(|what| (what, answer.show()))?;
        Ok("left".to_owned())
    }

    /// Starts a run with one request and reads it with another.
    async fn take_two_steps(&mut self) -> Outcome {
        let (to, mut request) = (self.replica(), self.request());
        request.fields.retain(|(name, _)| *name != "accept");
        let mut answer = self.open(to, &request).await?;
        answer.read_to_end().await;
        if answer.status != 202 {
            return judge::judge_refusal(self.plan, &self.context.situation, self.start, &answer)
                .map_err(|what| (what, answer.show()));
        }
        let events = self.get(&format!("{}/{}/events", self.plan.path(), self.plan.thread()), None);
        let mut answer = self.open(to, &events).await?;
        answer.read_to_end().await;
        // A run that waits in the process that was replaced.
        if answer.status == 404
            && answer.code() == "events_not_found"
            && self.context.situation.upgrades.overlap(self.start)
        {
            return Ok("waited in the old process".to_owned());
        }
        self.judge(&answer)
    }

    /// Stops the run in the middle.
    async fn stop(&mut self) -> Outcome {
        let (to, request) = (self.replica(), self.request());
        let mut answer = self.open(to, &request).await?;
        if answer.status != 200 {
            answer.read_to_end().await;
            return self.judge(&answer);
        }
        answer.read_frames(self.dice.below(1 + judge::frame_count(self.plan))).await;
        let stop = LoadRequest {
            method: "POST",
            path: format!("{}/runs/{}/stop", self.plan.path(), self.plan.run()),
            ..LoadRequest::default()
        };
        let (other, stop) = (self.replica(), self.with_credential(stop));
        let mut stopped = self.open(other, &stop).await?;
        stopped.read_to_end().await;
        answer.read_to_end().await;
        let show = || format!("{}\n--- of the stop\n{}", answer.show(), stopped.show());
        let received = frames(&answer.body);
        judge::check_legal(self.plan, &received).map_err(|what| (what, show()))?;
        judge::check_ids(&received).map_err(|what| (what, show()))?;
        match stopped.status {
            204 => Ok("stopped".to_owned()),
            503 | 404
                // Only the process that owns the run can stop it without Redis.
                if (other != to
                    || self.start.elapsed() > REPLAY_AGE
                    || self.context.situation.upgrades.overlap(self.start))
                    && self.context.situation.disturbs_redis(self.start) =>
            {
                Ok(format!("not stopped: {}", stopped.code()))
            }
            status => Err((format!("stop was answered with {status} {}", stopped.code()), show())),
        }
    }

    /// Leaves and comes back, on either replica, until it has the whole run; then compares what a client gets that comes
    /// without a cursor.
    async fn come_back(&mut self) -> Outcome {
        let (to, request) = (self.replica(), LoadRequest { small_buffer: false, ..self.request() });
        let mut answer = self.open(to, &request).await?;
        if answer.status != 200 {
            answer.read_to_end().await;
            return self.judge(&answer);
        }
        let expected = judge::frame_count(self.plan).max(1);
        answer.read_frames(1 + self.dice.below(expected)).await;
        let mut whole = frames(&answer.body);
        let mut history = format!("--- first\n{}", answer.show());
        let (mut leaves, mut at_owner) = (1 + self.dice.below(3), false);
        drop(answer);
        for _ in 0..MOST_RETURNS {
            let Some(cursor) = whole.last().and_then(|frame| frame.id.clone()) else {
                return Err(("no event to come back to".to_owned(), history));
            };
            sleep(Duration::from_millis(self.dice.below(150) as u64)).await;
            let (place, request) = (if at_owner { to } else { self.replica() }, self.return_request(&cursor, &request));
            let mut answer = self.open(place, &request).await?;
            leaves -= usize::from(leaves > 0);
            if leaves > 0 && answer.status == 200 {
                answer.read_frames(1 + self.dice.below(expected)).await;
            } else {
                answer.read_to_end().await;
            }
            history += &format!("--- behind {cursor}\n{}", answer.show());
            if answer.status != 200 {
                match self.judge_return(&answer.code()) {
                    Ok(true) => sleep(Duration::from_secs(1)).await,
                    // A run that ended while Redis was down is known to its own replica alone.
                    Ok(false) if place != to => at_owner = true,
                    Ok(false)
                        if self.context.situation.upgrades.overlap(self.start) || self.start.elapsed() > REPLAY_AGE =>
                    {
                        return Ok(format!("lost: {}", answer.code()));
                    }
                    Ok(false) => return Err((format!("lost by its own replica: {}", answer.code()), history)),
                    Err(what) => return Err((what, history)),
                }
                continue;
            }
            whole.extend(frames(&answer.body));
            if answer.end == Some(End::Cut) {
                self.judge_cut().map_err(|what| (what, history.clone()))?;
            } else if answer.end == Some(End::Clean) {
                return self.judge_whole(&whole, history).await;
            }
        }
        Err(("too many attempts to come back".to_owned(), history))
    }

    /// The events behind a cursor, by either way.
    fn return_request(&mut self, cursor: &str, start: &LoadRequest) -> LoadRequest {
        if self.dice.one_in(3) {
            return start.clone().with_field("last-event-id", cursor);
        }
        self.get(&format!("{}/runs/{}/events", self.plan.path(), self.plan.run()), Some(cursor))
    }

    /// Whether a client that was refused with this code may try again.
    fn judge_return(&self, code: &str) -> Result<bool, String> {
        let situation = &self.context.situation;
        match code {
            "replay_unavailable" if situation.disturbs_redis(self.start) => Ok(true),
            "gateway_draining" if situation.upgrades.overlap(self.start) => Ok(true),
            "run_not_found" | "cursor_gone" | "run_not_kept" | "run_lost" if situation.disturbs_redis(self.start) => {
                Ok(false)
            }
            _ => Err(format!("a return was refused: {code}")),
        }
    }

    fn judge_cut(&self) -> Result<(), String> {
        let situation = &self.context.situation;
        let known = situation.disturbs_redis(self.start) || situation.upgrades.overlap(self.start);
        if known { Ok(()) } else { Err("a returned client was cut off".to_owned()) }
    }

    async fn judge_whole(&mut self, whole: &[EventFrame], mut history: String) -> Outcome {
        let situation = &self.context.situation;
        judge::check_ids(whole).map_err(|what| (what, history.clone()))?;
        let outcome =
            judge::judge_frames(self.plan, situation, self.start, whole).map_err(|what| (what, history.clone()))?;
        let (to, request) =
            (self.replica(), self.get(&format!("{}/runs/{}/events", self.plan.path(), self.plan.run()), None));
        let mut answer = self.open(to, &request).await?;
        answer.read_to_end().await;
        history += &format!("--- recap\n{}", answer.show());
        if answer.status != 200 {
            return match self.judge_return(&answer.code()) {
                Ok(_) => Ok(format!("{outcome}, no recap")),
                Err(what) => Err((what, history)),
            };
        }
        if answer.end == Some(End::Cut) {
            return self.judge_cut().map(|()| format!("{outcome}, no recap")).map_err(|what| (what, history));
        }
        let recap = frames(&answer.body);
        judge::check_legal(self.plan, &recap).map_err(|what| (format!("recap: {what}"), history.clone()))?;
        judge::check_recap(self.plan, whole, &recap).map_err(|what| (what, history.clone()))?;
        Ok(outcome)
    }

    /// Sends a request that must be refused.
    async fn send_bad_request(&mut self) -> Outcome {
        let to = self.replica();
        let good = self.request();
        let without = |name: &str| {
            let mut request = good.clone();
            request.fields.retain(|(own, _)| *own != name);
            request
        };
        let (request, status, code) = match self.dice.below(9) {
            0 => {
                (LoadRequest { body: self.plan.body.as_bytes()[..20].to_vec(), ..good.clone() }, 400, "invalid_request")
            }
            1 => (LoadRequest { path: "/nowhere".to_owned(), ..good.clone() }, 404, "route_not_found"),
            2 => (LoadRequest { method: "GET", body: Vec::new(), ..good.clone() }, 405, "method_not_allowed"),
            3 => (without(self.credential.0), 401, "authentication_required"),
            4 => (without(self.credential.0).with_field("x-api-key", "mallory-key"), 401, "invalid_token"),
            5 => (without(self.credential.0).with_field("authorization", "Bearer e30.e30.AAAA"), 401, "invalid_token"),
            6 => (without("accept").with_field("accept", "text/html"), 406, "not_acceptable"),
            7 => (without("content-type").with_field("content-type", "text/plain"), 415, "unsupported_media_type"),
            _ => (LoadRequest { body: vec![b' '; 9 << 20], ..good.clone() }, 413, "body_too_large"),
        };
        let mut answer = self.open(to, &request).await?;
        answer.read_to_end().await;
        if (answer.status, &*answer.code()) != (status, code) {
            return Err((
                format!("a bad request got {} {} in place of {status} {code}", answer.status, answer.code()),
                answer.show(),
            ));
        }
        if self.plan.started() > 0 {
            return Err(("the agent received a bad request".to_owned(), answer.show()));
        }
        Ok(format!("refused: {code}"))
    }
}
