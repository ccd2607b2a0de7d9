/* perl_host.h - declarations shared by the C files of the Perl host.
 *
 * A request passes through these files: the server calls call.c with a complete request; filling.c (with input.c, errors.c,
 * socket.c and informational.c) lays it out as a PSGI environment; call.c calls the app; sending.c (with response.c and body.c)
 * reads the return value and passes it to the server; stream.c does this for apps that answer through a responder; reuse.c
 * keeps the environment for the next request. loop.c runs the app's event loop between requests, if the app has one, and
 * observing.c calls the app when a client has room for more or has gone. interpreter.c makes and frees the interpreters in
 * which all this happens, process.c handles the life of the processes.
 *
 * The C files form no cycle: no two files use each other, not even by way of others. `cargo xtask architecture` checks this.
 */
#ifndef ORIBI_PERL_HOST_H
#define ORIBI_PERL_HOST_H

#define PERL_NO_GET_CONTEXT
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include "perliol.h"
#pragma GCC diagnostic pop

#include "oribi.h"

/* Perl 5.38 named this test and moved it to another flag. */
#ifndef HvHasAUX
#define HvHasAUX(hash) SvOOK(hash)
#endif

/* For functions that do not need all arguments of their type. */
#define UNUSED_ARGUMENT(argument) ((void)(argument))

/* ---- environment.c --------------------------------------------------------------------------------------------------- */

/* The keys that PSGI adds to the CGI variables. In the tables of an Environment they follow the server's interned keys. */
enum {
    PSGI_VERSION = 0,
    PSGI_URL_SCHEME,
    PSGI_INPUT,
    PSGI_ERRORS,
    PSGI_MULTITHREAD,
    PSGI_MULTIPROCESS,
    PSGI_RUN_ONCE,
    PSGI_NONBLOCKING,
    PSGI_STREAMING,
    PSGIX_INPUT_BUFFERED,
    PSGIX_IO,
    PSGIX_HARAKIRI,
    PSGIX_CLEANUP,
    PSGIX_CLEANUP_HANDLERS,
    PSGIX_INFORMATIONAL,
    PSGIX_LOGGER,
    PSGI_KEYS, /* the number of variables that are always present */
    PSGIX_HARAKIRI_COMMIT = PSGI_KEYS,
    PSGIX_WEBSOCKET,    /* for requests whose connection an edge may keep open */
    PSGIX_EVENT_STREAM,
    ORIBI_DATA,       /* the data for a filter */
    ORIBI_TRAILERS,   /* the trailers, if there are any */
    ORIBI_QUEUE_TIME, /* the queue time in seconds, if the app gets it */
    ORIBI_DEADLINE,   /* a function with which the app changes its deadline, if there are deadlines */
    ORIBI_ON_GONE,    /* functions that set callbacks for the client, where an event loop runs */
    ORIBI_ON_ROOM,
    PSGI_NAMES        /* the number of names */
};

/* The kind of a value in a kept environment, which decides when it can be reused. */
typedef enum {
    SLOT_TEXT,      /* a plain string, overwritten for each request */
    SLOT_INTEGER,   /* a constant */
    SLOT_REFERENCE, /* a constant reference */
    SLOT_OBJECT     /* a reference that belongs to one request; its maker decides whether it can serve another */
} SlotKind;

/* An entry of the environment hash, as it was before the app could touch it. The members from `name` to `expected` are in the
 * order of the members of an entry (HE) and of a value (SV), so that reuse.c can compare two words at once. */
typedef struct {
    HE **link; /* the pointer to `entry`: a bucket, or the entry of the slot before */
    HE *entry;
    HEK *name;
    SV *value;
    U32 references; /* the references to `value`: one */
    U32 flags;      /* the flags of `value` */
    union {
        IV integer;
        SV *referent;
        char *text; /* the buffer of an untouched string */
    } expected;
    U32 key;        /* a server key, the number of server keys plus a PSGI key, or ORIBI_KEY_OTHER */
    U32 filled_for; /* the request that last gave it a value */
    SlotKind kind;
} Slot;

/* The most entries of a hash that are recorded. An environment with more entries is used only once. */
#define SLOTS_MAXIMUM 160

typedef struct {
    HV *hash;          /* kept for the next request; NULL if there is none yet */
    SV *reference;     /* to the hash that was made last, for the app; NULL if there is none yet */
    SV **names;        /* key objects with their hashes, by key */
    Slot **places;     /* the slots of keys, by key; NULL without an entry */
    U32 server_keys;   /* the number of keys of the server */
    U32 request;       /* counts requests, to show whether a slot belongs to this one */
    U32 text_slots;    /* the number of slots with variables of the request */
    U32 slot_count;
    bool rememberable; /* `slots` describes the whole hash */
    bool has_content;  /* psgi.input is over the content of one request */
    bool gateway;      /* `hash` is laid out for requests that come through a web server */
    bool nonblocking;  /* psgi.nonblocking */
    bool is_event;     /* the request is an event of a connection that an edge keeps open */
    U32 key_upgrade, key_accept; /* of HTTP_UPGRADE and HTTP_ACCEPT */
    HE **buckets;      /* the hash's, when `slots` was written */
    STRLEN bucket_maximum;
    SV *version; /* the array of psgi.version */
    SV *errors;  /* the glob of STDERR */
    SV *logger;  /* psgix.logger */
    SV *deadline; /* oribi.deadline; NULL without deadlines */
    HV *handle_stash; /* the class of fresh handles: IO::File */
    SV *content; /* the scalar with the last content in memory; its memory is used for the next */
    Slot slots[SLOTS_MAXIMUM]; /* in the order of the hash's buckets */
} Environment;

/* ---- ticket.c ---------------------------------------------------------------------------------------------------------- */

struct Context;

/* A copy of a head, because the app may change or free the values to which its fields point. */
struct KeptHead {
    uint16_t status;
    size_t field_count;
    oribi_field fields[];
};

/* An exchange that Perl code may refer to at any time: from a responder, a writer, or the psgix.informational callback. */
typedef struct Ticket {
    struct Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    U32 references;
    unsigned forks; /* see Context.forks */
    enum { TICKET_WAITING, TICKET_STREAMING, TICKET_GONE, TICKET_OVER } state;
    bool head_only;  /* the request is a HEAD */
    SV *environment; /* a reference to the environment of a response that outlives its callback; or NULL */
    struct KeptHead *head; /* of a response that begins with the first piece; or NULL */
    SV *writer;      /* the writer, which is not kept alive; or NULL */
    SV *kept;        /* a reference to the writer, which `on_room` keeps alive; or NULL */
    SV *on_room;     /* called when there is room for content; or NULL */
    SV *on_gone;     /* called when the client has gone; or NULL */
    bool wants_room; /* `on_room` has not been called since it was set or something was written */
    struct Ticket *before, *after; /* in the list of Context.observers */
} Ticket;

/* ---- interpreter.c ----------------------------------------------------------------------------------------------------- */

/* An interpreter that answers exchanges, with its data. */
typedef struct Context {
#ifdef MULTIPLICITY
    PerlInterpreter *perl;
#endif
    SV *app;
    unsigned forks;          /* the value of forks_count() in the process that serves */
    bool cloned;             /* `perl` belongs to this context */
    bool retiring;           /* the app has requested a new context, or called exit; not yet reported to the server */
    bool closing;            /* the server is done with this context: it must not be called again */
    struct TakenSocket *taken; /* hijacked sockets of exchanges that are not over: see socket.c */
    U32 taken_count, taken_room;
    oribi_exchange exchange; /* the exchange that was begun last */
    oribi_lane *lane;        /* the lane of that exchange */
    bool head_only;          /* the request of that exchange is a HEAD */
    /* Orders that the app has not received yet: the time limit that the app has exceeded, in milliseconds; 0 without an order.
     * A signal handler sets them: see interruption.c. */
    volatile uint64_t warn_after, interrupt_after;
    volatile uint32_t question;  /* the number of a request for a backtrace; 0 without one; see tracing.c */
    oribi_waker *volatile waker; /* of the context's lane; or NULL */
    volatile bool answering; /* between the beginning and the end of an answer: the app may receive orders */
    bool locating;           /* Perl code of Oribi runs that determines the position of the app */
    bool position_logged;    /* the position at which the app was interrupted is in the log */
    bool left_destructor;    /* the exception was raised in a destructor, and must be raised again */
    PERL_SI *outside;        /* the Perl stack of the server: no exception may be raised there */
    HV *present;             /* the environment of the request that is being answered */
    oribi_exchange opened;   /* 1 more than the exchange whose connection the app has made a WebSocket or a stream last; or 0 */
    AV *deferred; /* environments whose cleanup handlers are to be run once the responses have left; or NULL */
    bool looping;      /* an event loop runs between the requests */
    int loop_file;     /* the descriptor that the loop watches for the lane; -1 for none */
    struct Ticket *observers; /* a list of the tickets with `on_room` or `on_gone` */
    U32 wanting;              /* the number of observers whose `wants_room` is set */
    struct Ticket *begun;     /* the ticket of the request that is being answered, if the response comes later; or NULL */
    SV *next_gone, *next_room; /* callbacks for the next ticket of `observed`; or NULL */
    oribi_exchange observed;
    bool stop_noted;          /* the app knows that the process is about to end */
    Environment environment;
} Context;

#ifdef MULTIPLICITY
#define dCONTEXT_PERL(context) PerlInterpreter *my_perl = (context)->perl
#else
#define dCONTEXT_PERL(context) dNOOP
#endif

void *interpreter_open(void *data, int own);
void interpreter_enter(void *context);
void interpreter_begin(void *context, oribi_lane *lane);
void interpreter_leave(void *context);
void interpreter_close(void *context);

/* ---- environment.c ----------------------------------------------------------------------------------------------------- */

void environment_prepare(pTHX_ Environment *environment);
void environment_release(pTHX_ Environment *environment);
/* Adds oribi.deadline to all environments from now on. */
void environment_offer_deadline(pTHX_ Environment *environment);
/* Returns a reference to the hash, as the argument of the app. The environment owns the reference. */
SV *environment_argument(pTHX_ Environment *environment, HV *hash);
/* Makes the value of a variable; the caller owns it. */
SV *environment_text(pTHX_ oribi_bytes text);
/* Records the state of a value before the app has seen it. */
void environment_expect(Slot *slot, SlotKind kind, SV *value);
/* Sorts `slots` into the order of the hash's buckets and records the place of each key. */
void environment_remember(Environment *environment);
/* Makes the next request begin with a new environment, because the kept one may be inconsistent. */
void environment_forget(Environment *environment);
/* Returns the value of a PSGI key in the hash. NULL if the hash has no such key, or if reading the value would run code. */
SV *environment_value(pTHX_ Environment *environment, HV *hash, U32 psgi_key);

/* ---- filling.c ------------------------------------------------------------------------------------------------------- */

/* The environment of a request; the caller owns one reference. */
HV *environment_fill(pTHX_ Context *context, const oribi_request *request);

/* ---- reuse.c ----------------------------------------------------------------------------------------------------------- */

/* Takes an environment back for the next request, if the app has left it unchanged, which is the common case. Returns FALSE if
 * the app has kept it or added something; then the caller handles its cleanup work and calls environment_return(). */
bool environment_return_untouched(pTHX_ Context *context, HV *hash);
/* Takes an environment back for the next request, without the entries that the app has added. If the app has kept it, only
 * drops the host's references to it. */
void environment_return(pTHX_ Context *context, HV *hash);

/* ---- handle.c -------------------------------------------------------------------------------------------------------- */

/* Layers of a handle that passes bytes on as they are, for any value of PERLIO. */
#define RAW_LAYERS ":unix:perlio"

/* Whether a handle still has its original class, and the only reference to the handle and to each of its parts is that of its
 * owner. */
bool handle_is_private(const Environment *environment, SV *glob);

/* ---- input.c ----------------------------------------------------------------------------------------------------------- */

void input_define(pTHX);
/* A reference to a handle that reads a request's content or a filter's data. */
SV *input_new(pTHX_ Environment *environment, const oribi_content *from);
/* Whether a handle that was made for a request without content is unchanged. */
bool input_is_pristine(pTHX_ const Environment *environment, SV *glob);

/* ---- layer.c ----------------------------------------------------------------------------------------------------------- */

/* Seek and tell for handles that lead to no file: both fail, because such handles have no position (ESPIPE). */
IV layer_seek(pTHX_ PerlIO *handle, Off_t offset, int whence);
Off_t layer_tell(pTHX_ PerlIO *handle);

/* ---- errors.c ---------------------------------------------------------------------------------------------------------- */

void errors_define(pTHX);
/* Returns a reference to a handle whose text goes to the error log of the web server that has sent the context's present
 * exchange. */
SV *errors_new(pTHX_ Context *context);
/* Whether a handle is unchanged and has no other reference. */
bool errors_is_pristine(pTHX_ const Environment *environment, SV *glob);
/* Binds a pristine handle to the context's present exchange. */
void errors_rebind(Context *context, SV *glob);

/* ---- position.c -------------------------------------------------------------------------------------------------------- */

typedef struct {
    bool exact;             /* whether the socket counts its bytes */
    uint64_t read, written; /* only to be compared with others of the same socket */
} Position;

Position position_of(int file);

/* ---- socket.c ---------------------------------------------------------------------------------------------------------- */

void socket_define(pTHX);
/* A reference to a handle that hijacks the client's socket when it is first used. */
SV *socket_new(pTHX_ Context *context, const oribi_request *request);
/* Whether a handle is unused and has no other reference. */
bool socket_is_pristine(const Environment *environment, SV *glob);
/* Binds a pristine handle to the context's present exchange. Returns FALSE if the handle's class is for another kind of
 * address. */
bool socket_rebind(Context *context, const oribi_request *request, SV *glob);
/* Whether the app has hijacked the socket of an exchange. If so, the app need not answer. */
bool socket_is_taken(const Context *context, oribi_exchange exchange);
/* Whether the app has hijacked the socket and has then read from it, written to it, or closed it. If so, the app's ordinary
 * answer is dropped. */
bool socket_is_used(pTHX_ const Context *context, oribi_exchange exchange);
/* Records that the server also writes to the socket of an exchange, so that written bytes need not be the app's. */
void socket_note_output(const Context *context, oribi_exchange exchange);
/* Ends an exchange whose socket the app has used, and logs that `what` was dropped. `environment` is that of the request, or
 * NULL. */
void socket_drop(pTHX_ Context *context, oribi_exchange exchange, HV *environment, const char *what);
/* Gives an exchange up. The client gets a 500 even if its socket is hijacked, unless the app has used the socket. */
void socket_give_up(pTHX_ Context *context, oribi_lane *lane, oribi_exchange exchange);
/* Forgets an exchange that is over. */
void socket_forget(Context *context, oribi_exchange exchange);

/* ---- call.c ------------------------------------------------------------------------------------------------------------ */

uint32_t call_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
uint32_t call_run_deferred(void *context);
uint32_t call_attend(void *context);
uint32_t call_run_loop(void *context, int descriptor, int64_t milliseconds);

/* ---- cleanup.c ------------------------------------------------------------------------------------------------------- */

/* The handlers in psgix.cleanup.handlers; NULL if there are none. */
AV *cleanup_handlers(pTHX_ Context *context, HV *environment);
/* Whether psgix.harakiri.commit requests the end of this context. */
bool cleanup_asks_for_end(pTHX_ Context *context, HV *environment);
/* Called before a response: if the environment requests the end of this context, tells the server so (oribi_retire). */
void cleanup_before_response(pTHX_ Context *context, HV *environment);
/* Called when a request has been answered: notes whether its environment has cleanup handlers, and whether it requests the end
 * of this context. */
void cleanup_finished(pTHX_ Context *context, HV *environment);

/* ---- ticket.c -------------------------------------------------------------------------------------------------------- */

/* Makes a ticket for the context's present exchange. No value refers to it yet. */
Ticket *ticket_new(Context *context);
/* Lets a value refer to a ticket until it is freed. */
void ticket_attach(pTHX_ Ticket *ticket, SV *holder);
/* Removes a reference to the ticket. If it was the last and the response is not complete, gives the exchange up: the client
 * gets a 500, or the response is cut. */
void ticket_release(pTHX_ Ticket *ticket);
/* Returns the ticket of a value. Dies if the value has none, or if this is not the process that received the request. */
Ticket *ticket_of(pTHX_ SV *holder);
/* The magic by which a value refers to a ticket. */
extern const MGVTBL ticket_magic;
/* Whether ticket_magic is the only magic of a value. */
static inline bool ticket_is_alone(SV *holder) {
    return SvMAGIC(holder) && SvMAGIC(holder)->mg_virtual == &ticket_magic && !SvMAGIC(holder)->mg_moremagic;
}
/* Returns the environment of the ticket's request; NULL if it no longer exists. */
HV *ticket_environment(const Ticket *ticket);
void ticket_drop_head(Ticket *ticket);
/* Marks the response as complete. */
void ticket_finish(pTHX_ Ticket *ticket);
/* Adds the ticket to the observers of its context, or removes it, together with its callbacks. */
void ticket_observe(Ticket *ticket);
/* Whether the ticket is in the list of observers. */
static inline bool ticket_observes(const Ticket *ticket) {
    return ticket->before || ticket->after || ticket->context->observers == ticket;
}
/* Sets whether `on_room` is to be called. */
static inline void ticket_want(Ticket *ticket, bool wants) {
    if (ticket->wants_room != wants)
        ticket->context->wanting += wants ? 1 : -1;
    ticket->wants_room = wants;
}
void ticket_ignore(pTHX_ Ticket *ticket);
/* Keeps a value alive until the end of the caller's statement: code that runs in the meantime may remove the last other
 * reference to it. */
static inline void ticket_hold(pTHX_ SV *value) {
    sv_2mortal(SvREFCNT_inc_simple_NN(value));
}

/* ---- informational.c ------------------------------------------------------------------------------------------------- */

/* A reference to a psgix.informational callback for the context's present exchange. */
SV *informational_new(pTHX_ Context *context);
bool informational_is_private(SV *code);
void informational_rebind(Context *context, SV *code);
XS(informational_send);

/* ---- text.c ------------------------------------------------------------------------------------------------------------ */

/* Whether reading a value, which may be NULL, runs no code of the app. */
static inline bool text_is_quiet(const SV *value) {
    return !value || !(SvFLAGS(value) & (SVs_GMG | SVf_ROK));
}
/* Writes the digits of a value that is a plain number from 0 on: at most 20 digits, the last one before `end`. Perl itself
 * would keep the text with the app's value, an allocation that is mostly freed soon. Returns FALSE for any other value. */
bool text_digits(SV *value, char *end, oribi_bytes *bytes);
/* Describes a value for a message: "a hash reference", "an object of class Foo". Mortal. */
const char *text_describe(pTHX_ SV *value);

/* ---- protected.c ----------------------------------------------------------------------------------------------------- */

/* Calls `code` with `argument`, or without an argument if it is NULL. Returns the mortal return value, or NULL if `code` died;
 * then $@ has the reason. */
SV *protected_call(pTHX_ SV *code, SV *argument);
/* Calls a method of `object`, like protected_call(). Also returns NULL if there is no such method. */
SV *protected_call_method(pTHX_ SV *object, const char *method);

typedef enum { TEXT_OK, TEXT_UNDEFINED, TEXT_WIDE, TEXT_DIED } TextResult;

/* Reads the bytes of a value. Never dies; overloaded operators are called protected. If the bytes belong to the value itself,
 * they are valid until code of the app runs, or, if the app cannot reach the value, until the value is freed. Otherwise they
 * are valid until the next FREETMPS. */
TextResult text_bytes(pTHX_ SV *value, oribi_bytes *bytes);

/* ---- app_log.c ------------------------------------------------------------------------------------------------------- */

/* "GET /path: ", or nothing; mortal. */
SV *app_log_line(pTHX_ HV *environment);
/* Writes "what: $@" to the error log and clears $@. `environment` is that of the request, or NULL. */
void app_log_error(pTHX_ HV *environment, const char *what);
/* Writes a formatted line to the error log, after the request's method and path. */
void app_log(pTHX_ HV *environment, oribi_log_level level, const char *format, ...)
    __attribute__((format(printf, pTHX_3, pTHX_4)));

/* ---- response.c -------------------------------------------------------------------------------------------------------- */

/* The head of a response: its fields point into values of a settled response. */
typedef struct {
    uint16_t status;
    size_t field_count;
    oribi_field *fields; /* mortal, or `few` */
    oribi_field few[24];
    char digits[24]; /* of a numeric value, such as mostly the size of the content */
} Head;

/* The destination of a response. */
typedef struct {
    oribi_lane *lane;
    oribi_exchange exchange;
    HV *environment; /* of the request, for messages; or NULL */
    bool head_only;  /* the request is a HEAD */
    Context *context;
} Target;

/* Whether a response must not have content, even if it has a body. */
static inline bool response_has_no_content(const Target *target, uint16_t status) {
    return target->head_only || status == 204 || status == 205 || status == 304;
}

/* Makes a response safe to read. Returns the same array if reading the array and its lists runs no code of the app. Otherwise
 * returns a mortal deep copy that the app cannot reach; the copy is empty if copying died. The functions below expect the
 * result of this function. */
AV *response_settle(pTHX_ AV *response);
/* Does the same for a reference to a list of fields. */
SV *response_settle_fields(pTHX_ SV *headers);
/* These read the status and the fields of a response, or only its fields. They return NULL, or the error as a mortal string. */
const char *response_fields(pTHX_ SV *headers, Head *head);
const char *response_head(pTHX_ AV *response, Head *head);
/* Reads a list of trailers, which need not come from response_settle_fields(). */
const char *response_trailers(pTHX_ SV *trailers, Head *head);
/* Returns the message of a failed server call as a mortal string. NULL for ORIBI_OK and ORIBI_GONE, which are not the app's
 * fault. */
const char *response_failure(pTHX_ oribi_result result);
/* Returns the message about a text that could not be read, as a mortal string. */
const char *response_text_complaint(pTHX_ TextResult result, const char *what, const char *name);
/* An element of a plain array; never NULL. */
static inline SV *response_element(pTHX_ AV *array, SSize_t index) {
    SV *value = AvARRAY(array)[index];
    PERL_UNUSED_CONTEXT;
    return value ? value : &PL_sv_undef;
}

/* ---- body.c ------------------------------------------------------------------------------------------------------------ */

/* Sends a response whose body is not an array. `head` was read by response_head(). Same result as response_send. */
const char *body_send(pTHX_ const Target *target, const Head *head, SV *body);
/* Closes a body that is not sent. */
void body_drop(pTHX_ const Target *target, SV *body);

/* ---- sending.c ------------------------------------------------------------------------------------------------------- */

/* Answers with a complete response array. Returns NULL, or the error in the response as a mortal string. After an error the
 * exchange has been given up. */
const char *response_send(pTHX_ const Target *target, AV *response);

/* ---- stream.c ---------------------------------------------------------------------------------------------------------- */

/* Answers by calling the app's return value with a responder. FALSE if the answer will be given later. */
bool stream_answer(pTHX_ Context *context, SV *code, HV *environment);
XS(stream_respond);
XS(stream_write);
XS(stream_flush);
XS(stream_close);

/* ---- observing.c ------------------------------------------------------------------------------------------------------ */

/* Calls the callbacks of clients that have gone, and of writers that have room, once each. TRUE if there was one. */
bool observing_call(pTHX_ Context *context);
XS(observing_poll);
XS(observing_gone);
/* oribi.on_gone and oribi.on_room. */
XS(observing_request_gone);
XS(observing_request_room);
/* Passes on the callbacks that the app has set for its request, and afterwards sets them at once, until the ticket is NULL. */
void observing_begin(pTHX_ Context *context, Ticket *ticket);

/* ---- loop.c ------------------------------------------------------------------------------------------------------------ */

/* Runs the event loop once round: see oribi_host.run_loop. */
void loop_run(pTHX_ Context *context, int descriptor, int64_t milliseconds);

/* ---- forks.c --------------------------------------------------------------------------------------------------------- */

/* Returns the number of forks that led from the process of forks_watch() to this process. A process whose number has changed
 * knows that it is a forked copy. */
unsigned forks_count(void);
void forks_watch(void);
/* Ends the interpreter as a program ends: runs END blocks, which see the status and may change it, runs destructors, and
 * flushes buffers. Returns the status. */
int forks_end_interpreter(pTHX_ int status);
/* Ends a process that the app has forked and in which the app's code has returned to the server. Such a process must not touch
 * the connections of its parent. */
void forks_end_stray(pTHX_ int status) __attribute__((noreturn));

/* ---- process.c --------------------------------------------------------------------------------------------------------- */

/* The data that the host's callbacks get. */
typedef struct {
#ifdef MULTIPLICITY
    PerlInterpreter *perl; /* in which the app was loaded */
#endif
    bool looping; /* an event loop runs in the workers */
} Server;

void process_before_fork(void *data, uint32_t worker);
void process_worker_started(void *data, uint32_t worker);
void process_worker_stopping(void *data, uint32_t worker);
void process_set_title(void *data, const char *title, size_t size);
void process_end(void *data, int status);
void process_server_ready(void *data);

/* Removes from %ENV the variables that oribi_prepare() has removed from the environment of the process: perl copied the
 * environment into %ENV before. */
void process_hide_variables(pTHX);

/* ---- children.c ------------------------------------------------------------------------------------------------------- */

/* In a child process that the app has forked: sets the environment to the %ENV of the interpreter that has forked. */
void children_adopt(void);

/* ---- signals.c --------------------------------------------------------------------------------------------------------- */

/* Makes Perl's signal handlers wake the lane. */
void signals_define(void);
/* Sets the waker of the calling thread's lane; NULL removes it. */
void signals_set_waker(oribi_waker *waker, bool cloned);
/* For signal handlers: makes the lane check for signals that have arrived. */
void signals_wake(void);
/* Calls the app's handlers for the signals that have arrived. Returns FALSE if a handler died; then $@ has the reason, and
 * signals may be pending. */
bool signals_dispatch(pTHX);
/* In a new worker: from now on, when an app resets a signal in %SIG, the server's handler is set again. */
void signals_guard(pTHX);

/* ---- interruption.c ---------------------------------------------------------------------------------------------------- */

/* Replaces the operator `sleep` in all code that is compiled from now on. */
void interruption_define(void);
/* Prepares the interpreter for the orders to its context. */
void interruption_prepare(pTHX_ Context *context);
/* Passes an order to an app that takes too long. Called in a signal handler. */
void interruption_order(void *context, oribi_exchange exchange, oribi_order order, uint64_t milliseconds);
/* Mark the beginning and the end of an answer, so that an order for one request never reaches another. */
static inline void interruption_begin(pTHX_ Context *context, HV *environment) {
    context->warn_after = context->interrupt_after = 0;
    context->position_logged = context->left_destructor = FALSE;
    context->outside = PL_curstackinfo;
    context->present = environment;
    context->answering = TRUE;
}
static inline void interruption_end(Context *context) {
    context->answering = FALSE;
}
/* Returns the context while it answers a request; NULL at any other time. */
Context *interruption_context(pTHX);
XS(interruption_extend);

#include "extensions.h"

#endif
