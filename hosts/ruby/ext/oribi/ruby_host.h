/* ruby_host.h - what the C files of the Ruby host share.
 *
 * The life of a request: call.c is entered by the server with a complete request; environment.c (with input.c, errors.c and
 * hijack.c) lays it out as a Rack environment; call.c calls the app; response.c (with head.c, body.c and stream.c) reads what
 * it returned and hands it to the server. failure.c sees to everything that goes wrong on the way, deferred.c to what is done
 * when the response has left. context.c makes what a thread needs that answers, crew.c starts those threads and has the lock that they share, process.c (with
 * fork.c and signals.c) follows the life of the processes.
 *
 * Ruby leaves functions by longjmp: exceptions, throw, exit, the end of a thread. None may cross a frame of the server, so all
 * that the server calls runs Ruby code below rb_protect only. Functions of this header may raise unless they say otherwise.
 *
 * Several Ruby threads of one process may be in here at once, interleaved wherever Ruby code runs. So what belongs to a request
 * is on the stack of the thread that answers it, where the garbage collector sees it.
 */
#ifndef ORIBI_RUBY_HOST_H
#define ORIBI_RUBY_HOST_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <stdbool.h>

#include "crew.h"
#include "oribi.h"

/* Makes a string constant and its length two arguments. */
#define LITERAL(text) (text), (long)(sizeof(text) - 1)

/* ---- oribi.c --------------------------------------------------------------------------------------------------------- */

/* Names of methods, made once. */
typedef struct {
    ID call, each, close, to_path, to_ary, to_i, body, full_message, backtrace, message, run, flush, read;
} Names;
extern Names names;

extern VALUE oribi_module;
/* What an app's response is complained about with: only its message is logged. */
extern VALUE response_error;

/* What Oribi.serve was given. There is one server in a process. */
typedef struct {
    VALUE app;
    VALUE hooks;         /* a Hash of Arrays of callables */
    VALUE error_handler; /* a callable, or nil */
    int rack_major, rack_minor;
    bool development;
    bool early_hints;
    bool multithread;
    /* Garbage collection between requests; `collect_every` 0: none. */
    unsigned collect_every, collect_from;
    bool gctools;
} Server;
extern Server server;

/* Whether the app speaks Rack MAJOR.MINOR or a later one. */
static inline bool rack_is(int major, int minor) {
    return server.rack_major > major || (server.rack_major == major && server.rack_minor >= minor);
}

/* ---- context.c ------------------------------------------------------------------------------------------------------- */

/* Requests with more variables are laid out key by key. */
#define ENVIRONMENT_VARIABLES 48
/* How many lists of variables are remembered: browsers differ in what they send, and so do their first and later requests. */
#define SHAPES 16

/* A list of variables that requests have, and the environment for it. */
typedef struct {
    size_t count; /* of variables; 0: no shape */
    bool has_input;
    VALUE template; /* a Hash with the variables in front, then what else is a request's own */
    VALUE names;    /* an Array of the variables' names */
    uint32_t keys[ENVIRONMENT_VARIABLES];
} Shape;

/* What belongs to a thread that answers: the environments that its requests' are copied from, and what waits to be done. */
typedef struct Context {
    VALUE self; /* the Ruby object that marks what is in here */
    VALUE server_name, server_port, remote_address; /* of the last request */
    unsigned last_shape, next_shape, misses;
    Shape shapes[SHAPES];
    /* A stream that its body has left open is looked for: see stream.c. */
    uint64_t stream; /* its number, or 0 */
    VALUE stream_body, stream_record;
    VALUE deferred; /* what is to be done once the responses have left: an Array, see deferred.c */
    oribi_lane *lane; /* of the last request */
    unsigned forks; /* the value of fork_count in the process that serves */
    bool retiring;  /* the app called exit: the server is to be told once */
} Context;

void *context_open(void *data, int own);
void context_close(void *context);

/* ---- call.c ---------------------------------------------------------------------------------------------------------- */

/* Fields of a head that need no memory of their own. */
#define FEW_FIELDS 32

/* The head of a response. */
typedef struct {
    uint16_t status;
    bool has_length;
    bool chunked;       /* the app says Transfer-Encoding: chunked, and its body consists of chunks */
    uint64_t length;    /* the app's Content-Length, if has_length */
    size_t length_at;   /* its place among the fields */
    bool copies;        /* the fields point to copies; else into the app's strings, until something is allocated */
    size_t field_count;
    size_t field_room;
    oribi_field *fields; /* `few`, or what `memory` holds */
    VALUE memory;        /* a String for more fields, or Qfalse */
    VALUE bytes;         /* a String that holds the copies, or Qfalse */
    VALUE hijack;        /* the value of rack.hijack, or Qfalse */
    VALUE protocol;      /* the value of rack.protocol, or Qfalse */
    oribi_field few[FEW_FIELDS];
} Head;

/* What the server knows about an exchange that is being answered. */
typedef enum {
    CALL_OPEN,    /* nothing has been sent */
    CALL_STARTED, /* the head has been handed over, content follows */
    CALL_OVER,    /* the response is complete, was refused, or the client has gone */
    CALL_TAKEN,   /* the socket is the app's */
    CALL_KEPT     /* a stream that outlives the call answers it */
} CallState;

/* One request on its way through the app. It is on the stack of the thread that answers it. */
typedef struct {
    Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    const oribi_request *request;
    CallState state;
    bool close_due;    /* the body wants to be closed */
    bool bodiless;     /* the request's method is HEAD */
    VALUE environment;
    VALUE input;       /* an Oribi::Input over this request's content, or Qfalse */
    VALUE data;        /* the same over what is to be filtered */
    VALUE ticket;      /* the Oribi::Exchange of this request */
    VALUE finished;    /* the Array in rack.response_finished, or Qfalse */
    VALUE after_reply; /* the Array in rack.after_reply */
    VALUE response, status, headers, body;
    VALUE error;       /* what went wrong, or nil */
    Head head;
} Call;

uint32_t call_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);

/* ---- environment.c --------------------------------------------------------------------------------------------------- */

/* Makes the key strings of all environments; once in a process. */
void environment_define(void);
/* Lays the request of a call out; fills in the call's VALUEs that belong to the environment. */
void environment_fill(Call *call);

/* Keys that other files look up. */
extern VALUE key_hijack_io;

/* ---- input.c --------------------------------------------------------------------------------------------------------- */

void input_define(void);
/* A stream as rack.input over what came with a request: its content, or a filter's data. */
VALUE input_new(const oribi_content *content);
/* The one that requests without content share. */
VALUE input_empty(void);
/* The server is about to free the content of a request: what has not been read is copied. Never raises. */
void input_detach(VALUE input);

/* ---- errors.c -------------------------------------------------------------------------------------------------------- */

void errors_define(void);
/* rack.errors of a request that came through a web server. */
VALUE errors_new(const Call *call);

/* ---- hijack.c -------------------------------------------------------------------------------------------------------- */

/* What rack.hijack and rack.early_hints hold: the right to speak for an exchange, wherever the app calls it. */
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
/* Whether the app has taken the socket. */
bool ticket_is_taken(VALUE ticket);
/* Sends the head on the client's socket and hands the socket to `callable`. */
void hijack_respond(Call *call, VALUE callable);

/* ---- head.c ---------------------------------------------------------------------------------------------------------- */

void head_prepare(Head *head);
/* Reads a Hash of a few strings, without a call of Ruby code and without an allocation. False: it is none, so copy it. */
bool head_point(Head *head, VALUE headers);
/* Reads any headers, anew. */
void head_copy(Head *head, VALUE headers);
/* Reads the app's Content-Length, if there is one. */
bool head_find_length(Head *head);
bool head_has(const Head *head, const char *name);
bool field_is(const oribi_field *field, const char *name);
/* Takes a field out. */
void head_remove(Head *head, size_t index);
/* Names the field that the server may have refused. Allocates nothing. */
void head_culprit(const Head *head, char *text, size_t room);

/* ---- response.c ------------------------------------------------------------------------------------------------------ */

/* Reads the app's response and hands it to the server. */
void response_send(Call *call);
/* Sees what the server said to a call that sends. False: stop producing. Raises what breaks a rule. */
bool response_accepted(Call *call, oribi_result result);
/* What a value is, for messages: "nil", "an Array of 2 elements", "an instance of Foo". */
VALUE response_describe(VALUE value);

/* ---- body.c ---------------------------------------------------------------------------------------------------------- */

/* Whether a body is an Array of a few strings. */
bool body_is_plain(VALUE body);
/* Sends a body that is no Array. The head is a copy. */
void body_send(Call *call);
/* Sends an Array. The head is a copy, unless the Array is plain. */
void body_send_array(Call *call, VALUE array);
/* Calls close. */
void body_close(Call *call);

/* ---- chunks.c -------------------------------------------------------------------------------------------------------- */

/* A reader of the chunked coding, fed piece by piece. */
typedef struct {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_DONE } state;
    uint64_t left;
    unsigned digits;
    bool in_extension, line_is_empty;
} Chunks;

/* Takes the next run of content out of `*data`, `*size`, which are moved behind it. Nothing: size 0 in the result. Raises
 * when it is no chunked coding. */
oribi_bytes chunks_next(Chunks *chunks, const char **data, size_t *size);

/* ---- stream.c -------------------------------------------------------------------------------------------------------- */

void stream_define(void);
/* Sends a body that is called with a stream. */
/* Closes the body of a stream that is over, and does what was to be done then. */
void stream_settle(Context *context, VALUE body, VALUE record);
/* Whether the stream with that number was dropped lately. */
bool stream_was_dropped(uint64_t serial);
void stream_send(Call *call);

/* ---- failure.c ------------------------------------------------------------------------------------------------------- */

/* None of these raises. */

typedef enum {
    GUARD_FINE,
    GUARD_FAILED, /* it was left by an exception or the like, which has been logged */
    GUARD_EXITED  /* it called exit */
} GuardResult;

/* Something left the code that answers a call: logs it, answers 500 if nothing has been sent, cuts the response otherwise. */
void failure_answer(Call *call, int state);
/* Calls `function` protected; what it is left by is logged behind `what`. `environment` is that of the request, or nil. */
GuardResult failure_guard(const char *what, VALUE environment, VALUE (*function)(VALUE), VALUE argument);
/* Logs what left protected code without a request; `*status` is what exit was called with. */
GuardResult failure_log(const char *what, VALUE environment, int *status);
/* Writes a formatted line to the error log, behind the request's method and path. */
void failure_say(oribi_log_level level, VALUE environment, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- page.c ---------------------------------------------------------------------------------------------------------- */

/* What a developer sees of an exception: HTML. May raise. */
VALUE page_text(VALUE error, VALUE environment);

/* ---- deferred.c ------------------------------------------------------------------------------------------------------ */

/* What is to be done once a response has left: an Array of environment, status, headers, error and both lists. */
VALUE deferred_record(const Call *call);
/* Does it now. Never raises. */
void deferred_run_record(Context *context, VALUE record);
/* The response has been sent or given up: notes what is to be done now. Never raises. */
void deferred_note(Call *call);
/* What the server is to do next. */
uint32_t deferred_next(Context *context);
uint32_t deferred_run(void *context);
/* In a new worker: draws how many requests lie between two collections of garbage. */
/* Has it looked for whether the stream with that number is still anybody's, once the call is over. */
void deferred_look_for(Context *context, uint64_t stream, VALUE body, VALUE record);
void deferred_begin(void);

/* ---- process.c ------------------------------------------------------------------------------------------------------- */

void process_before_fork(void *data, uint32_t worker);
void process_worker_started(void *data, uint32_t worker);
void process_worker_stopping(void *data, uint32_t worker);
void process_set_title(void *data, const char *title, size_t size);
void process_end(void *data, int status);
void process_server_ready(void *data);
/* Ends a process that the app forked and that came back into the server: it must not touch the connections of its parent. */
void process_end_stray(int status) __attribute__((noreturn));
/* The number of this worker, from 1. */
uint32_t process_worker(void);

/* ---- settings.c ------------------------------------------------------------------------------------------------------ */

void settings_define(void);
const oribi_config *settings_of(VALUE object);

#endif
