/* perl_host.h - declarations shared by the C files of the Perl host.
 *
 * A request passes through these files: the server calls call.c with a complete request; filling.c (with input.c, errors.c,
 * socket.c and informational.c) lays it out as a PSGI environment; call.c calls the app; sending.c (with response.c and body.c)
 * reads the return value and passes it to the server; stream.c does this for apps that answer through a responder; reuse.c
 * keeps the environment for the next request. interpreter.c makes and frees the interpreters in which all this happens,
 * process.c handles the life of the processes.
 *
 * The files stand on floors: no two use each other, not even by way of others. `cargo xtask architecture` checks this.
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
    ORIBI_DATA,       /* the data for a filter */
    ORIBI_TRAILERS,   /* the trailers, if there are any */
    ORIBI_QUEUE_TIME, /* the queue time in seconds, if the app gets it */
    ORIBI_DEADLINE,   /* a function with which the app changes its deadline, if there are deadlines */
    PSGI_NAMES        /* the number of names */
};

/* The kind of a value in a kept environment, which decides when it can be reused. */
typedef enum {
    SLOT_TEXT,      /* a plain string, overwritten for each request */
    SLOT_INTEGER,   /* a constant */
    SLOT_REFERENCE, /* a constant reference */
    SLOT_OBJECT     /* a reference that belongs to one request; its maker decides whether it can serve another */
} SlotKind;

/* One entry of the environment hash, as it was when it was last known to be untouched. The members from `name` to `expected`
 * are in the order of those of an entry (HE) and of a value (SV), so that they can be compared two words at a time. */
typedef struct {
    HE **link; /* the pointer to `entry`: a bucket, or the entry of the slot before */
    HE *entry;
    HEK *name;
    SV *value;
    U32 references; /* to `value`: one */
    U32 flags;      /* of `value` as it was */
    union {
        IV integer;
        SV *referent;
        char *text; /* the buffer of an untouched string */
    } expected;
    U32 key;        /* a server key, the number of server keys plus a PSGI key, or ORIBI_KEY_OTHER */
    U32 filled_for; /* the request that last gave it a value */
    SlotKind kind;
} Slot;

/* If there are more entries, they are not recorded, and the environment is used only once. */
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
    HE **buckets;      /* the hash's, when `slots` was written */
    STRLEN bucket_maximum;
    SV *version; /* the array of psgi.version */
    SV *errors;  /* the glob of STDERR */
    SV *logger;  /* psgix.logger */
    SV *deadline; /* oribi.deadline; NULL without deadlines */
    HV *handle_stash; /* the class of fresh handles: IO::File */
    SV *content; /* the source of the last content's handle; its memory serves the next */
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
typedef struct {
    struct Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    U32 references;
    unsigned forks; /* see Context.forks */
    enum { TICKET_WAITING, TICKET_STREAMING, TICKET_GONE, TICKET_OVER } state;
    bool head_only;  /* the request is a HEAD */
    SV *environment; /* a reference to the environment of a response that outlives its callback; or NULL */
    struct KeptHead *head; /* of a response that begins with the first piece; or NULL */
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
    oribi_lane *lane;        /* and its lane */
    bool head_only;          /* its request is a HEAD */
    /* Orders that the app has not received yet, as the time in milliseconds that it has exceeded; 0 without an order. A
     * signal handler sets them: see interruption.c. */
    volatile uint64_t warn_after, interrupt_after;
    volatile uint32_t question;  /* the question of a requested backtrace; 0 without one; see tracing.c */
    oribi_waker *volatile waker; /* of its lane; or NULL */
    volatile bool answering; /* between the beginning and the end of an answer: the app may receive orders */
    bool locating;           /* Perl code of Oribi runs that determines the position of the app */
    bool position_logged;    /* the position at which the app was interrupted is in the log */
    bool left_destructor;    /* the order was raised in a destructor, and must be raised again */
    PERL_SI *outside;        /* the Perl stack of the server: no exception may be raised there */
    HV *present;             /* the environment of the request that is being answered */
    AV *deferred; /* environments whose cleanup handlers are to be run once the responses have left; or NULL */
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
/* A reference to it as the argument of the app; the caller owns none. */
SV *environment_argument(pTHX_ Environment *environment, HV *hash);
/* The value of a variable. */
SV *environment_text(pTHX_ oribi_bytes text);
/* Records the state of a value before the app has seen it. */
void environment_expect(Slot *slot, SlotKind kind, SV *value);
/* Sorts `slots` into the order of the hash's buckets and records the place of each key. */
void environment_remember(Environment *environment);
/* Makes the next request begin with a new environment, because the kept one may be inconsistent. */
void environment_forget(Environment *environment);
/* The value of a PSGI key; NULL if there is none, or if reading it would run code. */
SV *environment_value(pTHX_ Environment *environment, HV *hash, U32 psgi_key);

/* ---- filling.c ------------------------------------------------------------------------------------------------------- */

/* The environment of a request; the caller owns one reference. */
HV *environment_fill(pTHX_ Context *context, const oribi_request *request);

/* ---- reuse.c ----------------------------------------------------------------------------------------------------------- */

/* Takes back an environment that the app has left unchanged, the common case. FALSE if the app kept it, or added something
 * that must be checked; then call environment_return at the end. */
bool environment_return_untouched(pTHX_ Context *context, HV *hash);
/* Gives an environment up; parts that the next request can use stay. */
void environment_return(pTHX_ Context *context, HV *hash);

/* ---- handle.c -------------------------------------------------------------------------------------------------------- */

/* Layers of a handle that passes bytes on as they are, for any value of PERLIO. */
#define RAW_LAYERS ":unix:perlio"

/* Whether a handle has its original class, and its owner's reference is the only one to it and to its parts. */
bool handle_is_private(const Environment *environment, SV *glob);

/* ---- input.c ----------------------------------------------------------------------------------------------------------- */

void input_define(pTHX);
/* A reference to a handle that reads a request's content or a filter's data. */
SV *input_new(pTHX_ Environment *environment, const oribi_content *from);
/* Whether a handle that was made for a request without content is unchanged. */
bool input_is_pristine(pTHX_ const Environment *environment, SV *glob);

/* ---- layer.c ----------------------------------------------------------------------------------------------------------- */

/* For handles that lead to no file: they have no position (ESPIPE). */
IV layer_seek(pTHX_ PerlIO *handle, Off_t offset, int whence);
Off_t layer_tell(pTHX_ PerlIO *handle);

/* ---- errors.c ---------------------------------------------------------------------------------------------------------- */

void errors_define(pTHX);
/* A reference to a handle whose text goes to the web server that sent the context's present exchange. */
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
/* Binds a pristine handle to the context's present exchange. FALSE if it is for another kind of address. */
bool socket_rebind(Context *context, const oribi_request *request, SV *glob);
/* Whether the app has hijacked the socket of an exchange: it need not answer. */
bool socket_is_taken(const Context *context, oribi_exchange exchange);
/* Whether the app has used the hijacked socket: its ordinary answer is dropped. */
bool socket_is_used(pTHX_ const Context *context, oribi_exchange exchange);
/* Records that the server also writes to the socket. */
void socket_note_output(const Context *context, oribi_exchange exchange);
/* Ends an exchange whose socket is used, and logs that `what` was dropped. `environment` is that of the request, or NULL. */
void socket_drop(pTHX_ Context *context, oribi_exchange exchange, HV *environment, const char *what);
/* Gives an exchange up: also a client whose socket is hijacked, but not used, gets a 500. */
void socket_give_up(pTHX_ Context *context, oribi_lane *lane, oribi_exchange exchange);
/* Forgets an exchange that is over. */
void socket_forget(Context *context, oribi_exchange exchange);

/* ---- call.c ------------------------------------------------------------------------------------------------------------ */

uint32_t call_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
uint32_t call_run_deferred(void *context);
uint32_t call_attend(void *context);

/* ---- cleanup.c ------------------------------------------------------------------------------------------------------- */

/* The handlers in psgix.cleanup.handlers; NULL if there are none. */
AV *cleanup_handlers(pTHX_ Context *context, HV *environment);
/* Whether psgix.harakiri.commit asks for the end of this context. */
bool cleanup_asks_for_end(pTHX_ Context *context, HV *environment);
/* Called before a response: if its environment asks for the end of this context, the server gets to know it. */
void cleanup_before_response(pTHX_ Context *context, HV *environment);
/* Called when a request has been answered: checks whether its environment asks for cleanup handlers or for the end of this
 * context. */
void cleanup_finished(pTHX_ Context *context, HV *environment);

/* ---- ticket.c -------------------------------------------------------------------------------------------------------- */

/* For the context's present exchange; without a reference yet. */
Ticket *ticket_new(Context *context);
/* Lets a value refer to a ticket until it is freed. */
void ticket_attach(pTHX_ Ticket *ticket, SV *holder);
/* Gives up a reference. The last one that goes before the response is complete cuts the response. */
void ticket_release(pTHX_ Ticket *ticket);
/* The ticket of a value. Dies without one, and in another process. */
Ticket *ticket_of(pTHX_ SV *holder);
/* The magic by which a value refers to a ticket. */
extern const MGVTBL ticket_magic;
/* Whether that is the only magic of a value. */
static inline bool ticket_is_alone(SV *holder) {
    return SvMAGIC(holder) && SvMAGIC(holder)->mg_virtual == &ticket_magic && !SvMAGIC(holder)->mg_moremagic;
}
/* The environment of its request, if that still exists. */
HV *ticket_environment(const Ticket *ticket);
void ticket_drop_head(Ticket *ticket);
/* Marks the response as complete. */
void ticket_finish(pTHX_ Ticket *ticket);
/* Keeps a value alive until the end of the caller's statement, because code that runs meanwhile may drop the last reference. */
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
/* The digits of a value that is a plain number from 0 on: writes them, at most 20, so that they end at `end`. Perl itself would
 * keep them with the app's value, which costs an allocation and is mostly freed soon. FALSE if it is another value. */
bool text_digits(SV *value, char *end, oribi_bytes *bytes);
/* Describes a value for a message: "a hash reference", "an object of class Foo". Mortal. */
const char *text_describe(pTHX_ SV *value);

/* ---- protected.c ----------------------------------------------------------------------------------------------------- */

/* Calls `code` with one argument, which may be NULL. Returns its return value, mortal, or NULL if it died; then $@ has the
 * reason. */
SV *protected_call(pTHX_ SV *code, SV *argument);
/* The same for a method; also NULL without the method. */
SV *protected_call_method(pTHX_ SV *object, const char *method);

typedef enum { TEXT_OK, TEXT_UNDEFINED, TEXT_WIDE, TEXT_DIED } TextResult;

/* The bytes of a value. Never dies; overloading is called protected. If the bytes are the value's own, they are valid until
 * code of the app runs, or as long as the value lives if the app cannot reach it. Otherwise they are valid until the next
 * FREETMPS. */
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

/* Settles a response: returns the same array if reading it and its lists runs no code; otherwise a mortal deep copy that the
 * app cannot reach, which is empty if copying died. The functions below take settled responses. */
AV *response_settle(pTHX_ AV *response);
/* The same for a reference to a list of fields. */
SV *response_settle_fields(pTHX_ SV *headers);
/* Read status and fields, or only fields, of a response. Return NULL, or the error as a mortal string. */
const char *response_fields(pTHX_ SV *headers, Head *head);
const char *response_head(pTHX_ AV *response, Head *head);
/* The same for a list of trailers, which need not be settled. */
const char *response_trailers(pTHX_ SV *trailers, Head *head);
/* The message of a failed server call, as a mortal string; NULL for ORIBI_OK and ORIBI_GONE, which are not the app's fault. */
const char *response_failure(pTHX_ oribi_result result);
/* The message about a text that could not be read, as a mortal string. */
const char *response_text_complaint(pTHX_ TextResult result, const char *what, const char *name);
/* An element of a plain array; never NULL. */
static inline SV *response_element(pTHX_ AV *array, SSize_t index) {
    SV *value = AvARRAY(array)[index];
    PERL_UNUSED_CONTEXT;
    return value ? value : &PL_sv_undef;
}

/* ---- body.c ------------------------------------------------------------------------------------------------------------ */

/* Sends a body that is not an array. The head has been read. Same result as response_send. */
const char *body_send(pTHX_ const Target *target, const Head *head, SV *body);
/* Closes a body that is not sent. */
void body_drop(pTHX_ const Target *target, SV *body);

/* ---- sending.c ------------------------------------------------------------------------------------------------------- */

/* Answers with a complete response array. Returns NULL, or the error in the response as a mortal string; then the exchange has
 * been given up. */
const char *response_send(pTHX_ const Target *target, AV *response);

/* ---- stream.c ---------------------------------------------------------------------------------------------------------- */

/* Answers by calling the app's return value with a responder. FALSE if the answer will be given later. */
bool stream_answer(pTHX_ Context *context, SV *code, HV *environment);
XS(stream_respond);
XS(stream_write);
XS(stream_close);

/* ---- forks.c --------------------------------------------------------------------------------------------------------- */

/* The number of forks that led to this process: a forked copy of a serving process recognizes itself by it. */
unsigned forks_count(void);
void forks_watch(void);
/* Ends the interpreter as a program ends: END blocks, which see the status and may change it, destructors, buffers. Returns
 * the status. */
int forks_end_interpreter(pTHX_ int status);
/* Ends a process that the app forked and that has returned into the server: it must not touch its parent's connections. */
void forks_end_stray(pTHX_ int status) __attribute__((noreturn));

/* ---- process.c --------------------------------------------------------------------------------------------------------- */

/* The data that the host's callbacks get. */
typedef struct {
#ifdef MULTIPLICITY
    PerlInterpreter *perl; /* in which the app was loaded */
#endif
} Server;

void process_before_fork(void *data, uint32_t worker);
void process_worker_started(void *data, uint32_t worker);
void process_worker_stopping(void *data, uint32_t worker);
void process_set_title(void *data, const char *title, size_t size);
void process_end(void *data, int status);
void process_server_ready(void *data);

/* Removes from %ENV the variables that oribi_prepare has removed from the environment: perl has copied the environment
 * before. */
void process_hide_variables(pTHX);

/* ---- children.c ------------------------------------------------------------------------------------------------------- */

/* In a child that the app has forked: sets its environment to that of the interpreter that forked it. */
void children_adopt(void);

/* ---- signals.c --------------------------------------------------------------------------------------------------------- */

/* Makes Perl's signal handlers wake the lane. */
void signals_define(void);
/* Sets the waker of the calling thread's lane; NULL removes it. */
void signals_set_waker(oribi_waker *waker, bool cloned);
/* For signal handlers: makes the lane check for signals that have arrived. */
void signals_wake(void);
/* Calls the app's handlers for the signals that have arrived. FALSE if one died, $@ has the reason, and others may be
 * pending. */
bool signals_dispatch(pTHX);
/* In a new worker: makes the server's handler return, from now on, when an app resets a signal. */
void signals_guard(pTHX);

/* ---- interruption.c ---------------------------------------------------------------------------------------------------- */

/* Replaces the operator `sleep` in all code that is compiled from now on. */
void interruption_define(void);
/* Prepares the interpreter for the orders to its context. */
void interruption_prepare(pTHX_ Context *context);
/* Passes an order to an app that takes too long. Called in a signal handler. */
void interruption_order(void *context, oribi_exchange exchange, oribi_order order, uint64_t milliseconds);
/* Marks the beginning or the end of an answer: no order of one request reaches another. */
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
XS(interruption_extend);

/* ---- app_metrics.c ------------------------------------------------------------------------------------------------------ */

XS(app_metrics_count);
XS(app_metrics_observe);

/* ---- tracing.c ---------------------------------------------------------------------------------------------------------- */

/* Requests the positions of the apps. Called in a signal handler. */
void tracing_ask(void *data, uint32_t question);
/* Called when the calling thread starts or stops using a context. */
void tracing_enter(Context *context);
void tracing_leave(Context *context);
/* Reports the position of the app for the question of the context; called between two operations. */
void tracing_answer(pTHX_ Context *context);

/* ---- alarms.c ---------------------------------------------------------------------------------------------------------- */

/* Replaces the operator in all code that is compiled from now on. */
void alarms_define(void);
/* Called when the calling thread starts or stops using a clone. */
void alarms_enter(void);
void alarms_leave(void);

#endif
