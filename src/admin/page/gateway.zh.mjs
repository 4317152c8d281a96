// What the gateway itself says, in Chinese: by the English sentence, in which {} stands for what differs. A test
// compares the sentences of repairs, losses, rules and errors with the gateway's tables. What is missing here stays
// English.
/** @type {Record<string, string>} */
export default {
  // 修复
  "the stream did not begin with RUN_STARTED: one is added": "流没有以 RUN_STARTED 开头：已补上",
  "the agent used another thread or run id than the request: the request's id is sent, the agent's is carried":
    "智能体使用的会话或运行 id 与请求不同：发送请求中的 id，智能体的 id 原样携带",
  "the run's end named another thread or run than its start: the run's ids are sent, the others are carried":
    "运行结束时给出的会话或运行与开始时不同：发送该运行的 id，其余原样携带",
  "a message, call or step was used without a start: a start is added": "消息、调用或步骤没有开始就被使用：已补上开始",
  "an item was still open at RUN_FINISHED, or when another began with its id: its end is added":
    "在 RUN_FINISHED 时，或同一 id 的另一项开始时，仍有未结束的项：已补上结束",
  "an optional member was null: it is left out": "可选成员为 null：已省略",
  "a required member with one obvious value was missing: it is added": "缺少必需成员，而其值是明确的：已补上",
  "a value of the wrong JSON type had one obvious reading: it is converted, such as a number to its text":
    "值的 JSON 类型不对，但含义明确：已转换，例如把数字转为文本",
  "the AG-UI client would reject a value: it is moved to `metadata.diglot`": "AG-UI 客户端会拒绝该值：已移到 `metadata.diglot`",
  "an operation of a JSON Patch was invalid: it is corrected": "JSON Patch 中有无效的操作：已更正",
  "a message of another kind or an earlier run had the id, or it began with `interrupt:`: it becomes `<id>:<kind>` or `agent:<id>`":
    "该 id 已被另一类消息或更早的运行使用，或以 `interrupt:` 开头：改为 `<id>:<kind>` 或 `agent:<id>`",
  "two interrupts in a run had the same id: the later one is carried": "同一运行中有两个中断的 id 相同：后一个原样携带",
  "a call listed as pending was never made or was already answered: its id is carried":
    "列为待答的调用从未发起，或已有结果：其 id 原样携带",
  "a result belonged to an unknown call: it passes unchanged": "结果所属的调用未知：原样通过",
  "no dialect has an event of this type, or no rule of the dialect file reads the frame: it is sent as CUSTOM, named `<dialect>.<TYPE>`, or as RAW":
    "没有任何方言有此类型的事件，或方言文件中没有读取该帧的规则：作为 CUSTOM（名为 `<dialect>.<TYPE>`）或 RAW 发送",
  "only another dialect has an event of this type (`agent` of the route may be wrong): it is sent as CUSTOM":
    "只有另一种方言有此类型的事件（路由的 `agent` 可能有误）：作为 CUSTOM 发送",
  "an event had the name that AG-UI gives it: it is read as that": "事件使用了 AG-UI 中的名称：按该名称读取",
  "AG-UI 1.0 has no event of this type any more (THINKING_*): it is read as its successor (REASONING_*), with an id that the gateway makes":
    "AG-UI 1.0 已没有此类型的事件（THINKING_*）：读作其后继（REASONING_*），id 由网关生成",
  "an older client has one span of thinking with one message at a time: the starts and ends that it needs are added":
    "较旧的客户端一次只有一段思考和其中的一条消息：已补上所需的开始和结束",
  "a frame was not an event: it is sent as RAW": "该帧不是事件：作为 RAW 发送",
  "a member was in snake_case or occurred twice: it is sent in camelCase, once": "成员使用 snake_case 或出现两次：以 camelCase 发送一次",

  // 丢失
  "an event followed the end of the run: it is left out": "运行结束之后还有事件：已舍去",
  "RUN_STARTED came while the run was active: it is left out": "运行期间又收到 RUN_STARTED：已舍去",
  "an item was started while it was open, or ended while it was not: the start or end is left out, and so are arguments that a call repeats":
    "某项在打开时再次开始，或未打开就结束：该开始或结束已舍去，调用重复的参数也已舍去",
  "the agent sent the end marker `[DONE]`, which is not an event: it is left out": "智能体发送了结束标记 `[DONE]`，它不是事件：已舍去",
  "the dialect, or `strip` of the route's own dialect, does not allow a member: it is left out":
    "方言或路由自有方言的 `strip` 不允许某个成员：已舍去",
  "an older peer cannot receive something in any form: it is left out": "较旧的一方无法以任何形式接收：已舍去",
  "a content part of a later protocol version arrived in protobuf: it is left out": "protobuf 中有更新协议版本的内容部分：已舍去",
  "an event is too large to carry data that has no protobuf form: the nearest protobuf form is sent":
    "事件过大，无法携带没有 protobuf 形式的数据：发送最接近的 protobuf 形式",
  "a frame belonged to another run, in a stream that outlives runs: it is left out": "流跨越多个运行，而该帧属于另一个运行：已舍去",
  "a frame had already been received, in a resumed stream: it is left out": "恢复的流中有已收到过的帧：已舍去",
  "the receiver's dialect has no form for an activity: it is carried, and not shown": "接收方的方言没有活动的形式：原样携带，不显示",
  "the receiver's dialect has no form for reasoning, or the agent's snapshot lacks an open thought: it is carried, and not shown":
    "接收方的方言没有推理的形式，或智能体的快照缺少进行中的思考：原样携带，不显示",
  "the receiver's dialect has no form for a subagent, or for one of its steps: it is carried, and not shown":
    "接收方的方言没有子智能体或其步骤的形式：原样携带，不显示",
  "the receiver's dialect has no form for an interrupt: it is carried, and the user is not asked":
    "接收方的方言没有中断的形式：原样携带，不询问用户",
  "the receiver's dialect has no place for a part of a content, such as an image: it is carried, and not shown":
    "接收方的方言没有某种内容（如图片）的位置：原样携带，不显示",
  "the receiver's dialect has no place for a message, or for a text that is shown next to one, or the agent's snapshot lacks an open message: it is carried, and not shown":
    "接收方的方言没有该消息或其旁边文本的位置，或智能体的快照缺少进行中的消息：原样携带，不显示",
  "an older client has the role of the assistant alone for streamed text: the role is carried, and the text is shown as the assistant's":
    "较旧的客户端对流式文本只有助手一种角色：角色原样携带，文本显示为助手的",
  "a frame is no event of the agent's dialect, or one without a canonical form, or a call has no end that an older client needs: it is sent as RAW or CUSTOM, and not shown; or the agent's snapshot lacks an open call: the client drops it":
    "该帧不是智能体方言的事件，或没有规范形式，或调用缺少较旧客户端所需的结束：作为 RAW 或 CUSTOM 发送，不显示；或智能体的快照缺少进行中的调用：客户端会丢弃它",
  "nothing is kept of the conversation's earlier runs, so that the agent may not know its earlier messages: the client gets CUSTOM `diglot.conversation_lost`":
    "会话之前的运行没有任何保留，智能体可能不了解更早的消息：客户端收到 CUSTOM `diglot.conversation_lost`",

  // 规则
  "the first event is the start of the run, or an error": "第一个事件是运行的开始或错误",
  "the end of a run names the thread and the run that its start named": "运行结束与开始给出的会话和运行相同",
  "a message, tool call or step is started before it is continued or ended": "消息、工具调用或步骤先开始，再继续或结束",
  "every item is ended before the run finishes": "运行完成前，每一项都已结束",
  "an optional member is absent rather than null": "可选成员不存在，而不是 null",
  "a required member is present": "必需成员存在",
  "a member has the type that the specification gives it": "成员的类型与规范一致",
  "a member has one of its specified values": "成员的值是规范所列之一",
  "a JSON Patch is valid under RFC 6902": "JSON Patch 符合 RFC 6902",
  "the ids of a run's interrupts are unique": "同一运行的中断 id 互不相同",
  "a pending tool call is a call of this run without a result": "待答的工具调用是本次运行中没有结果的调用",
  "each frame is a JSON object with a type and its required members": "每一帧都是带有类型及其必需成员的 JSON 对象",
  "nothing follows the end of a run": "运行结束之后没有任何内容",
  "a run is started only once": "运行只开始一次",
  "an item is started only while closed, and ended only while open": "项只在关闭时开始，只在打开时结束",

  // 拒绝与失败
  "The request cannot be read.": "无法读取该请求。",
  "Correct the request and send it again.": "请更正后重新发送。",
  "No route has this path.": "没有路由使用此路径。",
  "Paths are compared exactly; check `routes` in the gateway's configuration.": "路径须完全一致；请检查网关配置中的 `routes`。",
  "A run is started with POST.": "运行用 POST 开始。",
  "Send the request with the method POST.": "请用 POST 方法发送请求。",
  "Streams of this route cannot be resumed.": "此路由的流不能恢复。",
  "Start the run again and read its events without Last-Event-ID, or set `on_disconnect: continue for 5m` on the route.":
    "请重新开始运行，读取事件时不带 Last-Event-ID；或在路由上设置 `on_disconnect: continue for 5m`。",
  "No run of this thread is waiting for a reader.": "此会话没有等待读取的运行。",
  "Start a run with POST and read its events once, before `timeouts.reader` passes; they cannot be read again.":
    "请用 POST 开始运行，并在 `timeouts.reader` 之前读取一次事件；不能再次读取。",
  "The Last-Event-ID was not issued by this gateway.": "该 Last-Event-ID 不是本网关给出的。",
  "Send the `id` of the last event unchanged, or no Last-Event-ID.": "请原样发送最后一个事件的 `id`，或不发送 Last-Event-ID。",
  "No run with this id is kept for this caller.": "没有为此调用方保留该 id 的运行。",
  "Start one with POST and without Last-Event-ID; a run is kept until `replay.age` after its end, and only for its caller.":
    "请用 POST 开始运行，不带 Last-Event-ID；运行结束后保留 `replay.age`，且只对其调用方可用。",
  "The run cannot be resumed after this event.": "运行不能从此事件之后恢复。",
  "Send the request without Last-Event-ID: the stream then begins with a snapshot of the run so far.":
    "请发送不带 Last-Event-ID 的请求：流将以到目前为止的运行快照开头。",
  "The run is too large to be resumed.": "运行过大，无法恢复。",
  "Raise `replay.run_bytes` or `replay.bytes`, or start over with a new runId.": "请调高 `replay.run_bytes` 或 `replay.bytes`，或用新的 runId 重新开始。",
  "Another run with this id is still open.": "使用此 id 的另一个运行尚未结束。",
  "To rejoin it, send Last-Event-ID, repeat the same body, or GET its events; for another run, use a new runId.":
    "要重新加入，请发送 Last-Event-ID、重复相同的正文，或 GET 其事件；新的运行请用新的 runId。",
  "This run has reached its reader limit.": "此运行的读取者已达上限。",
  "Close one of its streams and try again.": "请关闭其中一个流后重试。",
  "The run was abandoned: no client was connected for longer than `on_disconnect` allows.": "运行已被放弃：没有客户端连接的时间超过 `on_disconnect` 所允许的时长。",
  "Start it again, or raise `on_disconnect` of the route.": "请重新开始，或调高路由的 `on_disconnect`。",
  "The run was lost with the replica that ran it.": "运行随执行它的副本一起丢失。",
  "Start it again with a new runId.": "请用新的 runId 重新开始。",
  "The gateway has nothing from the earlier runs of this conversation, which the agent needs for this request.":
    "网关没有此会话更早运行的内容，而智能体需要它来处理该请求。",
  "Send a message of the user: the agent then begins a new conversation, with the history.": "请发送一条用户消息：智能体将带着历史开始新的会话。",
  "The gateway cannot check right now whether another replica has this run.": "网关目前无法检查其他副本是否有此运行。",
  "Try again after the time in `Retry-After`.": "请在 `Retry-After` 的时间之后重试。",
  "The kept runs take all the memory that they may use together.": "保留的运行已用完共同允许的内存。",
  "Try again shortly, resume with Last-Event-ID, or raise `replay.bytes`.": "请稍后重试、用 Last-Event-ID 恢复，或调高 `replay.bytes`。",
  "The events of a run are read with GET.": "运行的事件用 GET 读取。",
  "Send the request with the method GET.": "请用 GET 方法发送请求。",
  "A run of this thread is already waiting for a reader.": "此会话已有一个等待读取的运行。",
  "Read its events first, or wait until `timeouts.reader` of the route has passed.": "请先读取其事件，或等到路由的 `timeouts.reader` 过去。",
  "Too many runs are waiting for a reader.": "等待读取的运行过多。",
  "Try again shortly; a run waits until its events are requested.": "请稍后重试；运行会等到其事件被请求。",
  "A run is sent as text/event-stream.": "运行以 text/event-stream 发送。",
  "Send `Accept: text/event-stream`.": "请发送 `Accept: text/event-stream`。",
  "The request body did not arrive in time.": "请求正文没有及时到达。",
  "Send the whole body without a pause.": "请不间断地发送完整正文。",
  "The request headers exceed the gateway's limit.": "请求头超过网关的限制。",
  "Send fewer or shorter headers, or raise `limits.headers` or `limits.header_bytes`.": "请减少或缩短请求头，或调高 `limits.headers` 或 `limits.header_bytes`。",
  "The request body exceeds the gateway's limit.": "请求正文超过网关的限制。",
  "Send a smaller body, or raise `limits.request_body`.": "请缩小正文，或调高 `limits.request_body`。",
  "Too many request bodies are in memory.": "内存中的请求正文过多。",
  "Try again shortly, or raise `limits.request_bodies`.": "请稍后重试，或调高 `limits.request_bodies`。",
  "The request body must be JSON without a content coding.": "请求正文必须是没有内容编码的 JSON。",
  "Send `Content-Type: application/json` and no Content-Encoding.": "请发送 `Content-Type: application/json`，不带 Content-Encoding。",
  "The route requires a credential.": "该路由需要凭据。",
  "Send a credential of a kind that the route accepts.": "请发送该路由接受的凭据。",
  "The credential is not accepted.": "凭据未被接受。",
  "Get a new token from an issuer that the route accepts, or check the API key.": "请从该路由接受的签发方获取新令牌，或检查 API key。",
  "The credential has expired.": "凭据已过期。",
  "Get a new one and send the request again.": "请获取新的凭据后重新发送请求。",
  "Tokens cannot be checked right now: the issuer's keys are unavailable.": "目前无法检查令牌：无法取得签发方的密钥。",
  "Try again shortly; `/readyz?verbose` on the status port names the issuer that does not answer.":
    "请稍后重试；状态端口的 `/readyz?verbose` 会指出没有应答的签发方。",
  "The credential lacks a scope that the route requires.": "凭据缺少该路由要求的 scope。",
  "Get a credential with the scopes that the route requires.": "请获取具有该路由所要求 scope 的凭据。",
  "The caller may not use this route.": "调用方无权使用此路由。",
  "Use a credential that meets `require` of the route.": "请使用满足路由 `require` 的凭据。",
  "A tool is not allowed on this route.": "此路由不允许某个工具。",
  "Remove the tool from the request, or add it to `tools` of the route.": "请从请求中去掉该工具，或把它加入路由的 `tools`。",
  "The thread belongs to another caller.": "该会话属于另一个调用方。",
  "Start a thread of your own with a new `threadId`.": "请用新的 `threadId` 开始自己的会话。",
  "Thread ownership cannot be checked right now.": "目前无法检查会话的归属。",
  "Try again shortly; see `redis.on_error` in the gateway's configuration.": "请稍后重试；参见网关配置中的 `redis.on_error`。",
  "Pages of this origin may not call the route.": "此来源的网页不得调用该路由。",
  "Add the origin to `cors.origins` of the route.": "请把该来源加入路由的 `cors.origins`。",
  "Too many requests.": "请求过多。",
  "Wait for the time in `Retry-After` and send the request again.": "请等待 `Retry-After` 的时间后重新发送请求。",
  "The rate limit cannot be checked right now.": "目前无法检查速率限制。",
  "The caller has too many open runs.": "调用方进行中的运行过多。",
  "Wait until one of them has ended, or raise `max_streams_per_caller` of the route.": "请等待其中一个结束，或调高路由的 `max_streams_per_caller`。",
  "The gateway has reached its limit of open runs.": "网关进行中的运行已达上限。",
  "Try again shortly, or raise `max_streams`.": "请稍后重试，或调高 `max_streams`。",
  "The run exceeded a limit of the route on its size or duration.": "运行超过了路由对其大小或时长的限制。",
  "Request less at once, or raise `run_limits` of the route.": "请减少一次请求的内容，或调高路由的 `run_limits`。",
  "The runs in progress take all the memory that they may use together.": "进行中的运行已用完共同允许的内存。",
  "Run it again shortly, with fewer messages or smaller events of the agent, or raise `limits.run_memory`.":
    "请稍后以更少的消息或更小的智能体事件重新运行，或调高 `limits.run_memory`。",
  "The gateway had an internal error.": "网关发生内部错误。",
  "Report it to the operator with the request id, which is also in the log.": "请连同请求 id 报告给运维人员，日志中也有该 id。",
  "The gateway is shutting down.": "网关正在停机。",
  "Send the request again; another instance will serve it.": "请重新发送请求，将由另一个实例处理。",
  "The agent cannot be reached.": "无法连接智能体。",
  "Check that the agent is running and that `upstream` names it.": "请检查智能体是否在运行，以及 `upstream` 是否指向它。",
  "The agent takes no further run at the moment.": "智能体目前不再接受新的运行。",
  "Try again shortly, or let the agent allow more HTTP/2 streams at a time (SETTINGS_MAX_CONCURRENT_STREAMS).":
    "请稍后重试，或让智能体允许更多并发的 HTTP/2 流（SETTINGS_MAX_CONCURRENT_STREAMS）。",
  "The TLS connection to the agent failed.": "与智能体的 TLS 连接失败。",
  "Check the agent's certificate and `upstream_tls` of the route; the gateway's log has the cause.":
    "请检查智能体的证书和路由的 `upstream_tls`；原因见网关日志。",
  "The agent did not answer in time.": "智能体没有及时应答。",
  "Try again later, or raise `timeouts` of the route.": "请稍后重试，或调高路由的 `timeouts`。",
  "The agent sent no event for too long.": "智能体过久没有发送事件。",
  "Try again later, or raise `timeouts.idle` of the route, or `timeouts.ping_only` for an agent that still sends comments.":
    "请稍后重试，或调高路由的 `timeouts.idle`；若智能体仍在发送注释，则调高 `timeouts.ping_only`。",
  "The agent answered with an error status.": "智能体以错误状态应答。",
  "See the agent's own log for the reason; after a 404, check the path in `upstream`.": "原因见智能体自己的日志；若为 404，请检查 `upstream` 中的路径。",
  "The agent's response is not an event stream.": "智能体的响应不是事件流。",
  "Check that `upstream` is the agent's streaming endpoint.": "请检查 `upstream` 是否为智能体的流式端点。",
  "The agent's response has a content coding that was not requested.": "智能体的响应使用了未请求的内容编码。",
  "Turn off compression of event streams at the agent.": "请关闭智能体对事件流的压缩。",
  "The agent's response is not valid HTTP.": "智能体的响应不是有效的 HTTP。",
  "Check that `upstream` names an HTTP server.": "请检查 `upstream` 是否指向 HTTP 服务器。",
  "The agent's stream ended before its run did.": "智能体的流在运行结束之前就结束了。",
  "Run it again; see the agent's own log for why it stopped.": "请重新运行；停止的原因见智能体自己的日志。",
  "The agent's events are not known to the gateway.": "网关不认识智能体的事件。",
  "Set `agent` of the route to the agent's own dialect: `diglot detect` names that of a recording.":
    "请把路由的 `agent` 设为智能体自己的方言：`diglot detect` 可识别记录所用的方言。",
  "The connection to the agent broke.": "与智能体的连接断开。",
  "The agent broke a rule of its protocol.": "智能体违反了其协议的规则。",
  "Fix the agent, or let the gateway repair its stream: `guard: repair` on the route.": "请修正智能体，或让网关修复其流：在路由上设置 `guard: repair`。",
  "An event of the agent exceeds the gateway's limit.": "智能体的一个事件超过网关的限制。",
  "Let the agent send smaller events, or raise `limits.frame`.": "请让智能体发送更小的事件，或调高 `limits.frame`。",
  "The agent's run has more messages, calls and steps than the gateway can follow.": "智能体的运行中消息、调用和步骤过多，网关无法跟踪。",
  "Let the agent end what it starts, send shorter snapshots, and divide very long runs.": "请让智能体结束它开始的项、发送更短的快照，并拆分很长的运行。",

  // 更具体的原因
  "the body is not a JSON object: {}.": "正文不是 JSON 对象：{}。",
  "The request carries no credential; the route requires {}.": "请求没有凭据；该路由需要 {}。",
  "`Authorization: Bearer <token>` or {}": "`Authorization: Bearer <token>`，或 {}",
  "`Authorization: Bearer <API key>` or {}": "`Authorization: Bearer <API key>`，或 {}",
  "an API key in {}": "{} 中的 API key",
  "The request carries more than one credential; send one.": "请求带有多个凭据；请只发送一个。",
  "The credential is malformed or of a kind that the route does not accept; it never belongs in the URL.":
    "凭据格式不对，或不是该路由接受的种类；凭据不得放在 URL 中。",
  "Get a new token from an issuer that the route accepts.": "请从该路由接受的签发方获取新令牌。",
  "Check the API key, or ask the operator of the gateway for a new one.": "请检查 API key，或向网关运维人员索取新的。",
  "Send exactly one credential: {}.": "请只发送一个凭据：{}。",
  "The route is for certain tenants.": "该路由只供特定租户使用。",
  "The claim `{}` lacks a value that the route requires.": "声明 `{}` 缺少该路由要求的值。",
  "The route requires all of these scopes: `{}`.": "该路由要求以下全部 scope：`{}`。",
  "The rate limit {} is exhausted: {} requests per {}, with bursts of up to {}. Retry in {} s.":
    "速率限制 {0} 已用完：每 {2} 允许 {1} 个请求，突发最多 {3} 个。请在 {4} 秒后重试。",
  "The rate limit {} is exhausted: 1 request per {}, with bursts of up to {}. Retry in {} s.":
    "速率限制 {0} 已用完：每 {1} 允许 1 个请求，突发最多 {2} 个。请在 {3} 秒后重试。",
  "The caller has reached the limit {} (at most {} at a time).": "调用方已达到限制 {}（同时最多 {} 个）。",
  "The route has reached the limit {} (at most {} at a time).": "路由已达到限制 {}（同时最多 {} 个）。",
  "The gateway has reached the limit {} (at most {} at a time).": "网关已达到限制 {}（同时最多 {} 个）。",
  "The request body is larger than {} bytes.": "请求正文大于 {} 字节。",
  "The agent answered with status {}.": "智能体以状态 {} 应答。",
  "Reference: {}.": "参考：{}。",
  "The agent sent no event within {} (`timeouts.first_event` of the route).": "智能体在 {} 内没有发送事件（路由的 `timeouts.first_event`）。",
  "The agent sent no event within {}, only comments or parts of one (`timeouts.ping_only` of the route).":
    "智能体在 {} 内没有发送事件，只有注释或事件的一部分（路由的 `timeouts.ping_only`）。",
  "The agent sent more than the gateway accepts: {}.": "智能体发送的内容超过网关接受的范围：{}。",
  "The agent called the tool `{}`, which is not allowed on this route.": "智能体调用了工具 `{}`，此路由不允许。",
  "{} breaks the rule that {} ({}).": "{} 违反了规则“{}”（{}）。",

  "The run took longer than {} (`run_limits.duration` of the route).": "运行超过 {}（路由的 `run_limits.duration`）。",
  "The run has more than {} events (`run_limits.events` of the route).": "运行超过 {} 个事件（路由的 `run_limits.events`）。",
  "The run has more than {} bytes (`run_limits.bytes` of the route).": "运行超过 {} 字节（路由的 `run_limits.bytes`）。",
  "none of {} events is known to the dialect `{}`; they look like `{}`: set `agent: {}`, and name its file in `dialect_files`":
    "{} 个事件都不为方言 `{}` 所知；它们像是 `{}`：请设置 `agent: {}`，并在 `dialect_files` 中写明其文件",
  "none of {} events is known to the dialect `{}`; they look like `{}`: set `agent: {}`":
    "{} 个事件都不为方言 `{}` 所知；它们像是 `{}`：请设置 `agent: {}`",
  "none of {} events is known to the dialect `{}`; `diglot detect` looks for the dialect of a recording":
    "{} 个事件都不为方言 `{}` 所知；`diglot detect` 可查找记录所用的方言",
  "the only event is not known to the dialect `{}`; it looks like `{}`: set `agent: {}`": "唯一的事件不为方言 `{}` 所知；它像是 `{}`：请设置 `agent: {}`",
  "the only event is not known to the dialect `{}`; `diglot detect` looks for the dialect of a recording":
    "唯一的事件不为方言 `{}` 所知；`diglot detect` 可查找记录所用的方言",

  // 行的备注
  "another connection to the agent continues": "由与智能体的另一个连接继续",
  "the agent's stream ended": "智能体的流已结束",
  "the gateway ended the run": "网关结束了运行",
  "the run was stopped": "运行被停止",
  "{} bytes of protobuf": "{} 字节的 protobuf",
  "the agent's stream was cut within this event": "智能体的流在此事件中间被截断",
  "the run ended within this event": "运行在此事件中间结束",
  "the agent's stream was cut within a character of this event": "智能体的流在此事件的一个字符中间被截断",
  "the agent named `{}`, which has no start, while `{}` was open: it probably changed the id from `{}` to `{}`":
    "智能体在 `{1}` 尚未结束时使用了没有开始的 `{0}`：它很可能把 id 从 `{2}` 改成了 `{3}`",
  "the inspector kept nothing of the agent's next {} bytes: {}": "检查器没有保留智能体接下来的 {} 字节：{}",
  "a limit of `inspect` was reached": "已达到 `inspect` 的限制",
  "the route has `redact`, which cannot search protobuf": "路由设有 `redact`，而它无法在 protobuf 中查找",
  "a line of the event stream is longer than {} bytes": "事件流中的一行超过 {} 字节",
  "an event of the stream is larger than {} bytes": "流中的一个事件大于 {} 字节",
  "the stream ended without a terminal event": "流没有结束事件就结束了",
  "the dialect of the agent knows none of the events": "智能体的方言不认识其中任何事件",
  "the agent called a tool that is not allowed": "智能体调用了不允许的工具",
  "the run has reached its limit of events": "运行已达到事件数的限制",
  "the run has reached its limit of bytes": "运行已达到字节数的限制",
  "the messages and calls that wait for their end are larger than {} bytes": "等待结束的消息和调用大于 {} 字节",
  "more than {} messages, calls, steps and subagents are open at once": "同时打开的消息、调用、步骤和子智能体超过 {} 个",
  "the lists of one event have more than {} messages, calls, parts and other elements": "一个事件的列表中消息、调用、部分等元素超过 {} 个",
  "an event is larger than {} bytes in the client's form": "一个事件在客户端的形式下大于 {} 字节",
  "the ids of the run's messages, calls, steps and subagents need more than {} bytes": "运行的消息、调用、步骤和子智能体的 id 需要超过 {} 字节",

  // 流的形式
  "begins with a byte order mark, and its lines end in CR LF": "以字节顺序标记开头，且各行以 CR LF 结尾",
  "begins with a byte order mark": "以字节顺序标记开头",
  "has lines that end in CR LF": "各行以 CR LF 结尾",

  // 时间线与检查
  "{}, a new connection": "{}，新连接",
  "{}, a kept connection": "{}，沿用的连接",
  "{} bytes so far": "到目前为止 {} 字节",
  "{} bytes": "{} 字节",
  "a path or an http URL, one Host, at most {} fields": "路径或 http URL，一个 Host，最多 {} 个字段",
  "the connection's address; forwarding headers are ignored": "连接的地址；忽略转发头",
  "no page but the gateway's own": "只允许网关自己的网页",
  "pages of any origin": "任何来源的网页",
  "pages of {}, or the gateway's own": "{} 的网页，或网关自己的网页",
  "how much of the limit is used up": "限制已用掉多少",
  "how many runs are open": "有多少运行正在进行",
  "the caller": "调用方",
  "an API key of {}, in {}": "{} 的 API key，位于 {}",
  "a token of {}, as `Authorization: Bearer …`": "{} 的令牌，以 `Authorization: Bearer …` 发送",
  "{}: at most {} runs at once": "{}：同时最多 {} 个运行",
  "{}: at most {} run at once": "{}：同时最多 {} 个运行",
  "all of the scopes {}": "全部 scope：{}",
  "a tenant of {}": "{} 的租户",
};
