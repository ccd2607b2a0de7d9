/* ruby_host.h - declarations shared by the C files of the Ruby host.
 *
 * A request passes through these files: the server calls call.c with a complete request; environment.c (with input.c,
 * errors.c, hijack.c and offer.c) lays it out as a Rack environment; call.c calls the app; response.c (with head.c, body.c
 * and stream.c) reads the return value and passes it to the server; live.c does so for connections that an edge keeps open.
 * rescue.c (with failure.c) handles everything that goes wrong on the way, deadline.c requests that take too long,
 * deferred.c the work after the response has been sent. context.c makes the data of a thread that answers, threads.c starts
 * those threads and has the lock that they share. With --fibers, fibers.c (with poller.c) calls call.c in a fiber for each
 * request. room.c sends content to clients that read slowly. process.c (with fork.c, stray.c and signals.c) handles the life
 * of the processes. shared.c has the data that all of them use.
 *
 * The C files form no cycle: no two files use each other, not even by way of others. `cargo xtask architecture` checks this.
 *
 * Ruby leaves functions by longjmp: exceptions, throw, exit, the end of a thread. None may cross a frame of the server, so
 * every function that the server calls runs Ruby code only below rb_protect. Functions of this header may raise unless stated
 * otherwise.
 *
 * Several Ruby threads of a process may execute these files at once, interleaved wherever Ruby code runs. So the data of a
 * request is on the stack of the thread that answers the request, where the garbage collector sees it.
 */
#ifndef ORIBI_RUBY_HOST_H
#define ORIBI_RUBY_HOST_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "oribi.h"

/* Makes a string constant and its length two arguments. */
#define LITERAL(text) (text), (long)(sizeof(text) - 1)

/* ---- shared.c -------------------------------------------------------------------------------------------------------- */

/* Makes everything in this part; once in a process, before the other files define their classes. */
void shared_define(void);

/* Names of methods. */
typedef struct {
    ID call, each, close, to_path, to_ary, to_i, body, full_message, backtrace, message, run, flush, read, trailers;
} Names;
extern Names names;

extern VALUE oribi_module;
/* The error for an invalid response of the app: only its message is logged. */
extern VALUE response_error;
/* The exception for a request that has taken too long. It is no StandardError: an app may have a `rescue` without a class
 * around any call of a library, which must not take the exception for a failure of that call and try again; Net::HTTP does so
 * with a Timeout::Error. `ensure` runs as usual, and frameworks that `rescue Exception` show their error page. */
extern VALUE request_timeout;
#define REQUEST_TIMEOUT_TEXT "the request has taken longer than it may"

static inline bool is_request_timeout(VALUE error) {
    return !NIL_P(error) && rb_obj_class(error) == request_timeout;
}

/* The arguments of Oribi.serve. There is one server in a process. */
typedef struct {
    VALUE app;
    VALUE hooks;         /* a Hash of Arrays of callables */
    VALUE error_handler; /* a callable, or nil */
    int rack_major, rack_minor;
    bool development;
    bool early_hints;
    bool multithread;
    bool io_threads; /* --max-io-threads: an app that only waits may say so */
    uint32_t worker; /* the number of this worker, from 1 */
    bool fibers;     /* each request runs in a fiber */
    bool own_scheduler; /* although the app has loaded async */
    VALUE scheduler; /* that of the fibers of this worker, an Oribi::Scheduler::OfWorker; Qfalse before it serves */
    uint64_t request_timeout; /* in milliseconds; 0: none */
    /* Garbage collection between requests; `collect_every` 0 turns it off. */
    unsigned collect_every, collect_from;
    bool gctools;
} Server;
extern Server server;

/* Whether the app uses Rack MAJOR.MINOR or a later version. */
static inline bool rack_is(int major, int minor) {
    return server.rack_major > major || (server.rack_major == major && server.rack_minor >= minor);
}

/* ---- signals.c ------------------------------------------------------------------------------------------------------ */

/* Remove Ruby's handlers for the signals that the server handles, and restore them. */
void signals_yield_to_server(void);
void signals_restore(void);
/* Call this in a worker after the server has set its handlers. */
void signals_know_servers(void);
/* In a child process that an app has forked: restores Ruby's handlers for the signals that the server handles in the worker.
 * May be called between fork and exec. */
void signals_leave_server(void);

/* ---- fork.c --------------------------------------------------------------------------------------------------------- */

/* For the table of functions: oribi_host.fork. */
int fork_by_ruby(void *data);

/* fork_count is the number of forks between fork_watch() and this process. If the number has changed when the app returns, the
 * app has forked, and this is the child: it must not act as the worker. */
void fork_watch(void);
extern unsigned fork_count;

/* ---- stray.c -------------------------------------------------------------------------------------------------------- */

/* Marks this process as the server's own, which serves or forks workers. */
void stray_watch(void);
/* Ends a process that the app has forked and in which the app's code has returned to the server. Such a process must not touch
 * the connections of its parent. */
void stray_end(int status) __attribute__((noreturn));
/* Whether the app has forked this process. */
bool is_stray(void);
/* Ends such a process as Ruby ends a program whose code has ended with this state of rb_protect: with Ruby's message, exit
 * status and at_exit handlers. */
void stray_end_as_program(int state) __attribute__((noreturn));
/* Flushes standard output and standard error. For rb_protect; ignores its argument. */
VALUE stray_flush(VALUE unused);

/* ---- threads.c ------------------------------------------------------------------------------------------------------ */

/* For the table of functions: oribi_host.lock. */
extern const oribi_lock threads_lock;

/* Whether the lane of this process can still be used: an object that refers to an exchange may outlive the lane. */
bool threads_have_lane(void);
/* Says so for the lane of a process whose threads share no lock with the server. */
void threads_have_lane_now(bool has_lane);

/* See oribi_crew_mark_waiting(). The app's thread ends the mark; it ends after its turn if it has no place any more. */
bool threads_mark_waiting(void);
void threads_unmark_waiting(void);

/* Call this when Thread#kill has left the app's code: the calling thread ends after its turn. */
void threads_note_killed(void);

/* Handles Ruby's pending interrupts of the calling thread, at a place where no request is being answered. Returns false if the
 * thread was killed; it then ends after its turn. */
bool threads_take_interrupts(void);

/* ---- context.c ------------------------------------------------------------------------------------------------------- */

/* Requests with more variables are laid out key by key. */
#define ENVIRONMENT_VARIABLES 48
/* The most lists of variables that are remembered. Browsers send different fields, and the first request of a browser has other
 * fields than its later ones. */
#define SHAPES 16

/* A list of variables of requests, and the template for it. */
typedef struct {
    size_t count; /* the number of variables; 0 if there is no shape here */
    bool has_input;
    bool is_event;    /* an event of a connection that an edge keeps open */
    size_t accept_at; /* the index of HTTP_ACCEPT; else 0, at which is no field */
    VALUE template; /* a Hash with the variables in front, followed by the request's other entries */
    VALUE names;    /* an Array of the variables' names */
    uint32_t keys[ENVIRONMENT_VARIABLES];
} Shape;

/* An order of the server, written in a signal handler: see deadline.c. */
typedef struct {
    _Atomic uint64_t exchange, milliseconds;
    _Atomic bool given;
} Order;

struct Call;

enum { DUE_INTERRUPTION = 1 /* an exception was raised because of the request */, DUE_MARK = 2 /* the app only waits */ };

/* The data of a thread that answers: the templates for environments, and deferred work. */
typedef struct Context {
    VALUE self; /* the Ruby object that marks the values in here */
    VALUE thread;            /* the Ruby thread that uses this context */
    uint32_t kernel_thread;  /* the kernel's thread ID of that thread */
    struct Context *next;    /* the context of another thread, or NULL */
    struct Call *call;       /* the request that is being answered, or NULL; NULL with --fibers */
    struct Call *calls;      /* with --fibers: those whose fibers have not ended, linked by `next` */
    VALUE running;           /* with --fibers: the fiber that runs, if the scheduler runs one; else Qfalse */
    VALUE root;              /* with --fibers: the fiber in which the scheduler runs */
    Order warning, interruption;
    uint8_t due;    /* what must be undone when the app has answered: DUE_INTERRUPTION, DUE_MARK */
    VALUE io_bound; /* the object for oribi.io_bound, or Qfalse until it is needed */
    VALUE server_name, server_port, remote_address; /* of the last request */
    unsigned last_shape, next_shape, misses;
    Shape shapes[SHAPES];
    bool looks;    /* there are such: */
    VALUE streams; /* streams that their bodies have left open, to be checked: an Array of numbers and records, see stream.c */
    VALUE deferred; /* work to be done once the responses have left: an Array, see deferred.c */
    oribi_lane *lane; /* of the last request */
    unsigned forks; /* the value of fork_count in the process that serves */
    bool retiring;  /* the app called exit, which is to be reported to the server once */
} Context;

void *context_open(void *data, int own);
void context_close(void *context);
/* Called when the calling thread begins or stops using a context. */
void context_enter(void *context);
void context_leave(void *context);
/* The contexts that threads of this process use, linked by `next`; with Ruby's lock held. */
Context *context_first(void);
/* The context of the calling thread, or NULL. */
Context *context_own(void);
/* The request whose app runs in a context, or NULL. */
struct Call *context_call(const Context *context);
/* With --fibers: the call of a fiber, or of the fiber that it belongs to; or NULL. */
struct Call *context_call_of(VALUE fiber);
/* With --fibers: the fiber of a request, or another one that the scheduler has begun, for which this fiber does a part: as that of an
 * Enumerator. A fiber that has no other belongs to itself. */
VALUE context_outer_of(VALUE fiber);
void context_set_outer_of(VALUE fiber, VALUE outer);
bool context_has_outer(VALUE fiber);
void context_set_call_of(VALUE fiber, struct Call *call);
/* With the scheduler of async, which does not report which fiber runs: lets all fibers that are made in the calling one, that of
 * a request, belong to this request. */
void context_let_inherit(VALUE fiber);

/* ---- call.c ---------------------------------------------------------------------------------------------------------- */

/* The most fields of a head that need no extra memory. */
#define FEW_FIELDS 32

/* The head of a response. */
typedef struct {
    uint16_t status;
    bool has_length;
    bool chunked;       /* the app's body consists of chunks; the server takes their content out */
    uint64_t length;    /* the app's Content-Length, if has_length */
    size_t length_at;   /* the index of the app's Content-Length in `fields` */
    bool copies;        /* the fields point to copies; else into the app's strings, until something is allocated */
    size_t field_count;
    size_t field_room;
    oribi_field *fields; /* `few`, or in `memory` */
    VALUE memory;        /* a String for more fields, or Qfalse */
    VALUE bytes;         /* a String that holds the copies, or Qfalse */
    VALUE hijack;        /* the value of rack.hijack, or Qfalse */
    VALUE protocol;      /* the value of rack.protocol, or Qfalse */
    oribi_field few[FEW_FIELDS];
} Head;

/* The state of an exchange that is being answered. */
typedef enum {
    CALL_OPEN,    /* nothing has been sent */
    CALL_STARTED, /* the head has been handed over, content follows */
    CALL_OVER,    /* the response is complete, was refused, or the client has gone */
    CALL_TAKEN,   /* the app has hijacked the socket */
    CALL_KEPT     /* a stream that outlives the call answers the request */
} CallState;

/* The part that a connection has in a request which an edge may keep open: see live.c. */
typedef enum {
    LIVE_NONE,
    LIVE_ASKED,     /* the request may ask for it: only while its environment is laid out */
    LIVE_WEBSOCKET, /* the app may accept a WebSocket */
    LIVE_STREAM,    /* the app may begin a stream of events */
    LIVE_EVENT      /* the request is an event */
} Live;

/* One request on its way through the app, on the stack of the thread that answers it. */
typedef struct Call {
    Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    const oribi_request *request;
    CallState state;
    bool close_due;    /* the body must be closed */
    bool bodiless;     /* the method of the request is HEAD */
    Live live;
    bool streams;      /* the response has begun, and the app has more to send */
    VALUE cancellation; /* with --fibers: the exception that ends what the app waits for, or Qfalse */
    uint64_t due;      /* with --fibers: when the request's time is over (deadline_after) */
    VALUE fiber;       /* with --fibers */
    struct Call *next; /* see Context.calls */
    void *start;       /* with --fibers: see fibers.c */
    VALUE environment;
    VALUE input;       /* an Oribi::Input over this request's content, or Qfalse */
    VALUE data;        /* an Oribi::Input over the data for a filter, or Qfalse */
    VALUE ticket;      /* the Oribi::Exchange of this request */
    VALUE finished;    /* the Array in rack.response_finished, or Qfalse */
    VALUE after_reply; /* the Array in rack.after_reply */
    VALUE client;      /* the Oribi::Live::Client of the event that is handled, or nil */
    VALUE response, status, headers, body;
    VALUE error;       /* the exception, or nil */
    Head head;
} Call;

/* Returns the lane at which to answer the call. The app's code may fork anywhere and also return in the child process: then
 * ends the child. */
static inline oribi_lane *call_lane(const Call *call) {
    if (RB_UNLIKELY(call->context->forks != fork_count))
        stray_end(0);
    return call->lane;
}

static inline Call call_new(Context *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request) {
    return (Call){
        .context = context,
        .lane = lane,
        .exchange = exchange,
        .request = request,
        .environment = Qnil,
        .response = Qnil,
        .status = Qnil,
        .headers = Qnil,
        .body = Qnil,
        .error = Qnil,
        .client = Qnil,
    };
}

uint32_t call_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
/* Calls the app and answers. Never raises. */
void call_perform(Call *call);
/* Makes the content of the request independent of the server: see input_detach(). Never raises. */
void call_detach(const Call *call, bool over);

/* ---- fibers.c --------------------------------------------------------------------------------------------------------- */

void fibers_define(void);
/* For the table of functions, with --fibers. */
void fibers_begin(void *context, oribi_lane *lane);
void fibers_leave(void *context);
void fibers_close(void *context);
uint32_t fibers_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
uint32_t fibers_run_loop(void *context, int descriptor, int64_t milliseconds);
uint32_t fibers_attend(void *context);

/* ---- poller.c --------------------------------------------------------------------------------------------------------- */

void poller_define(void);

/* ---- room.c ----------------------------------------------------------------------------------------------------------- */

/* Like oribi_write(), but continues to wait for room at the client after the thread was interrupted; in a fiber, others run
 * meanwhile. Handles interrupts during the wait, so a jump may leave this function. */
oribi_result room_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);
/* With --fibers: opens and closes the lane for other threads of the app. */
void room_open(oribi_lane *lane);
void room_close(void);
/* Call this after a thread of the app may have sent something: with --fibers, the lane waits in the worker's own thread. */
void room_note_use(void);
/* Wakes the fibers whose clients have caught up or gone. Never raises. */
void room_attend(void);

/* ---- environment.c --------------------------------------------------------------------------------------------------- */

/* Makes the key strings of all environments; once in a process. */
void environment_define(void);
/* Makes the environment of a call's request, and sets those VALUEs of the call that belong to the environment. */
void environment_fill(Call *call);

/* ---- input.c --------------------------------------------------------------------------------------------------------- */

void input_define(void);
/* A stream for rack.input over a request's content, or over a filter's data. */
VALUE input_new(const oribi_content *content);
/* The stream shared by requests without content. */
VALUE input_empty(void);
/* Makes a stream independent of the server, which is about to free the content: copies unread content in memory. With `over`,
 * the response is over, and the descriptor of a large file is closed. Never raises. */
void input_detach(VALUE input, bool over);

/* ---- errors.c -------------------------------------------------------------------------------------------------------- */

void errors_define(void);
/* rack.errors of a request that came through a web server. */
VALUE errors_new(const Call *call);

/* ---- hijack.c -------------------------------------------------------------------------------------------------------- */

/* The object in rack.hijack and rack.early_hints, by which the app hijacks the socket or sends early hints; the app may call it
 * anywhere. */
typedef struct {
    VALUE context; /* Context.self */
    VALUE environment;
    VALUE io; /* the socket, or Qfalse */
    oribi_lane *lane;
    oribi_exchange exchange;
    unsigned forks;
} Ticket;

void hijack_define(void);
VALUE ticket_new(const Call *call);
void ticket_bind(VALUE ticket, VALUE environment);
/* Whether the app has hijacked the socket. */
bool ticket_is_taken(VALUE ticket);
/* Resets the connection of a hijacked socket, unless the app has closed it. */
void ticket_reset(VALUE ticket);
/* Sends the head on the client's socket and hands the socket to `callable`. If that fails, the connection is reset. */
void hijack_respond(Call *call, VALUE callable);

/* ---- offer.c --------------------------------------------------------------------------------------------------------- */

void offer_define(void);
/* Offers an app to keep the connection of a request open that may ask for it, and finds out whether it is an event. */
void offer_make(Call *call);

/* ---- live.c ----------------------------------------------------------------------------------------------------------- */

void live_define(void);
/* Calls the app, or the handler of an event, and answers. */
void live_answer(Call *call);

/* ---- describe.c ----------------------------------------------------------------------------------------------------- */

/* Describes a value for messages: "nil", "an Array of 2 elements", "an instance of Foo". */
VALUE describe_value(VALUE value);

/* ---- head.c ---------------------------------------------------------------------------------------------------------- */

void head_prepare(Head *head);
/* Reads headers that are a Hash of a few strings, without calling Ruby code and without allocating. Returns false for any other
 * headers; then call head_copy(). */
bool head_point(Head *head, VALUE headers);
/* Reads headers of any kind, from the start, and copies them. */
void head_copy(Head *head, VALUE headers);
/* Reads the app's Content-Length, if there is one. */
bool head_find_length(Head *head);
/* Calls the body's method `trailers` and reads its result into a new head. Returns false if there is no such method, or if
 * there are no trailers. */
bool head_of_trailers(Head *head, VALUE body);
bool head_has(const Head *head, const char *name);
bool field_is(const oribi_field *field, const char *name);
/* Removes a field. */
void head_remove(Head *head, size_t index);
/* Names the field that the server probably refused. Allocates nothing. */
void head_culprit(const Head *head, char *text, size_t room);

/* ---- result.c ------------------------------------------------------------------------------------------------------- */

/* Handles the result of a call that sends a part of the response. Returns false if the caller must stop producing. Raises if
 * the response is invalid. */
bool result_accepted(Call *call, oribi_result result);

/* ---- response.c ------------------------------------------------------------------------------------------------------ */

/* Reads the app's response and passes it to the server. */
void response_send(Call *call);
/* For an app that has answered on the socket itself: takes only the body from its response, to close it. */
void response_ignore(Call *call);

/* ---- body.c ---------------------------------------------------------------------------------------------------------- */

/* Whether a body is an Array of a few strings. */
bool body_is_plain(VALUE body);
/* Sends a body that is not an Array. The head is a copy. */
void body_send(Call *call);
/* Sends an Array. The head is a copy, unless the Array is plain. */
void body_send_array(Call *call, VALUE array);
/* Whether the response has no content, so that the body need not run. */
bool body_is_unwanted(const Call *call);
/* Sends the head of a response without content. The head is a copy. */
void body_send_none(Call *call);
/* Closes the body of the response. Never raises. */
void body_close_due(Call *call);
/* Closes the body of the response, unless that has been done or is not needed. */
static inline void body_close(Call *call) {
    if (call->close_due)
        body_close_due(call);
}

/* ---- stream.c -------------------------------------------------------------------------------------------------------- */

void stream_define(void);
/* Sends a body that has call, with a stream. */
void stream_send(Call *call);

/* ---- failure.c ------------------------------------------------------------------------------------------------------- */

/* None of these raises. */

typedef enum {
    GUARD_FINE,
    GUARD_FAILED, /* an exception or another jump has left the function, and has been logged */
    GUARD_EXITED  /* the function called exit */
} GuardResult;

/* Calls `function` protected. Logs an exception, with `what` before its message. `environment` is that of the request, or
 * nil. */
GuardResult failure_guard(const char *what, VALUE environment, VALUE (*function)(VALUE), VALUE argument);
/* Logs the exception that has left protected code. If it was exit, sets `*status` to the argument of exit, unless `status` is
 * NULL. */
GuardResult failure_log(const char *what, VALUE environment, int *status);
/* Returns and clears the exception that has left protected code. Returns nil for throw and Thread#kill: they leave another
 * value, which must not be touched. */
VALUE failure_take_error(void);
/* Logs `error` after `what`, which may be NULL. If an exception's own methods fail, logs its class. */
GuardResult failure_log_error(const char *what, VALUE environment, VALUE error, int *status);
/* Writes a formatted line to the error log, after the request's method and path. */
void failure_write(oribi_log_level level, VALUE environment, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes a text of any length to the error log, after the request's method and path. May raise. */
void failure_write_text(oribi_log_level level, VALUE environment, VALUE text);
/* "GET /path: ", or nothing. May raise. */
VALUE failure_line(VALUE environment);

/* ---- deadline.c ------------------------------------------------------------------------------------------------------ */

/* Returns the object for oribi.deadline in all environments. */
VALUE deadline_define(void);
/* The time on the monotonic clock, in milliseconds, that is so far from now; never if that is negative. */
uint64_t deadline_after(int64_t milliseconds);
void deadline_begin(void); /* prepares a worker */
/* For the table of functions: oribi_host.interrupt. Called in a signal handler. */
void deadline_interrupt(void *context, oribi_exchange exchange, oribi_order kind, uint64_t milliseconds);
/* Handles the orders for the calling thread that have just arrived. For --fibers: Ruby notes a signal for the fiber that runs
 * then, and the one that runs next would not notice. May raise. */
void deadline_obey(void);
/* Makes the calling thread receive, and drops, the exceptions of a request that has ended by now. Never raises. */
void deadline_forget(Context *context);

/* ---- io_bound.c ------------------------------------------------------------------------------------------------------ */

/* The object for oribi.io_bound in the environments of a context; the end of a mark, when the app has answered, on its thread. */
VALUE io_bound_of(Context *context);
void io_bound_define(void);
void io_bound_end(Context *context);

/* ---- messenger.c ---------------------------------------------------------------------------------------------------- */

/* Returns the number of the signal for which Ruby has the trap. The server and the Lua host use the two real-time signals
 * before it. */
int messenger_signal(void);
/* Prepares a worker. Called on Ruby's main thread. */
void messenger_begin(void);
/* For signal handlers: makes Ruby's main thread run the trap for orders and requests. */
void messenger_call_main(void);

/* ---- tracing.c ------------------------------------------------------------------------------------------------------- */

/* Prepares a worker that begins to serve. */
void tracing_begin(void);
/* Requests the backtraces of the apps. Called in a signal handler. */
void tracing_ask(void *data, uint32_t question);
/* Reports the backtraces of the apps, if they were requested. Called with Ruby's lock held. The first `skip` frames of the
 * calling thread are not the app's. */
void tracing_answer_pending(long skip);

/* ---- app_metrics.c --------------------------------------------------------------------------------------------------- */

void app_metrics_define(void);
/* Prepares a worker that begins to serve. */
void app_metrics_begin(void);
/* Whether metrics of apps are counted, and the number of garbage collections that have been reported so far. */
extern bool app_metrics_counted;
extern size_t app_metrics_collections;
void app_metrics_note_collections(void);

/* Reports the garbage collections since the last report, if there were any. Never raises. */
static inline void app_metrics_report_collections(void) {
    if (RB_UNLIKELY(app_metrics_counted) && rb_gc_count() != app_metrics_collections)
        app_metrics_note_collections();
}

/* ---- page.c ---------------------------------------------------------------------------------------------------------- */

/* The page about an exception for a developer: HTML. May raise. */
VALUE page_text(VALUE error, VALUE environment);

/* ---- deferred.c ------------------------------------------------------------------------------------------------------ */

/* The deferred work of a response: an Array of environment, status, headers, error and both lists. */
VALUE deferred_record(const Call *call);
/* Runs deferred work now. Never raises. */
void deferred_run_record(Context *context, VALUE record);
/* Records the deferred work of a response that has been sent or given up. Never raises. */
void deferred_note(Call *call);
/* Returns the flags that tell the server what to do next. */
uint32_t deferred_next(Context *context);
uint32_t deferred_run(void *context);
/* Requests a check, after the call, whether anything still refers to the stream with this number. */
void deferred_look_for(Context *context, uint64_t stream, VALUE record);
/* Overwrites the stack below the caller's frame, so that it refers to no stream. */
void deferred_wipe_stack(void);
/* Records that the collector has freed the stream with this number. */
void deferred_note_dropped(uint64_t stream);
void deferred_begin(void);

/* ---- process.c ------------------------------------------------------------------------------------------------------- */

void process_before_fork(void *data, uint32_t worker);
void process_worker_started(void *data, uint32_t worker);
void process_worker_stopping(void *data, uint32_t worker);
void process_set_title(void *data, const char *title, size_t size);
void process_end(void *data, int status);
void process_server_ready(void *data);

/* ---- rescue.c ------------------------------------------------------------------------------------------------------- */

/* Handles an exception or another jump out of the code that answers a call: logs it. Answers 500 if nothing has been sent;
 * otherwise the response is cut. Never raises. */
void rescue_answer(Call *call, int state);

/* ---- settings.c ------------------------------------------------------------------------------------------------------ */

void settings_define(void);
const oribi_config *settings_of(VALUE object);

#endif
