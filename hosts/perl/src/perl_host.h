/* perl_host.h - what the C files of the Perl host share.
 *
 * The life of a request: call.c is entered by the server with a complete request; environment.c (with input.c, errors.c and
 * socket.c) lays it out as a PSGI environment; call.c calls the app; response.c (with body.c) reads what it returned and hands
 * it to the server; stream.c does so for apps that answer through a responder. interpreter.c makes and frees the interpreters
 * in which all of that happens, process.c follows the life of the processes.
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

/* Perl 5.38 gave this test a name and moved it to another flag. */
#ifndef HvHasAUX
#define HvHasAUX(hash) SvOOK(hash)
#endif

/* For functions whose callers give them more than they need. */
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
    PSGI_KEYS, /* how many of them are always there */
    PSGIX_HARAKIRI_COMMIT = PSGI_KEYS,
    ORIBI_DATA, /* what a filter is to filter */
    PSGI_NAMES  /* how many names there are */
};

/* What a value of a kept environment must be like to be used again. */
typedef enum {
    SLOT_TEXT,      /* a plain string, overwritten for each request */
    SLOT_INTEGER,   /* a constant */
    SLOT_REFERENCE, /* a constant reference */
    SLOT_OBJECT     /* a reference that belongs to one request; whoever made it decides whether it can serve another */
} SlotKind;

/* One entry of the environment hash, as it was when it was last known to be untouched. */
typedef struct {
    HE **link; /* what points to `entry`: a bucket, or the entry of the slot before */
    HE *entry;
    HEK *name;
    SV *value;
    union {
        IV integer;
        SV *referent;
        char *text; /* the buffer of a string that nobody has touched */
    } expected;
    U32 flags;      /* of `value` as it was */
    U32 key;        /* a server key, the number of server keys plus a PSGI key, or ORIBI_KEY_OTHER */
    U32 filled_for; /* the request that last gave it a value */
    SlotKind kind;
} Slot;

/* More entries than this are not worth remembering: such an environment is used once. */
#define SLOTS_MAXIMUM 160

typedef struct {
    HV *hash;          /* kept for the next request; NULL: make one */
    SV **names;        /* key objects with their hashes, by key */
    U32 *positions;    /* where in `slots` a key is, by key; SLOTS_MAXIMUM: nowhere */
    U32 server_keys;   /* how many of the keys are the server's */
    U32 request;       /* counts requests, so that a slot can tell whether it belongs to this one */
    U32 text_slots;    /* how many slots hold variables of the request */
    U32 slot_count;
    bool rememberable; /* `slots` describes the whole hash */
    bool has_content;  /* psgi.input is over the content of one request */
    bool gateway;      /* `hash` is laid out for requests that come through a web server */
    HE **buckets;      /* the hash's, when `slots` was written */
    STRLEN bucket_maximum;
    SV *version; /* the array of psgi.version */
    SV *errors;  /* the glob of STDERR */
    SV *logger;  /* psgix.logger */
    HV *handle_stash; /* the class of fresh handles: IO::File */
    SV *content; /* what the handle of the last content read from; its memory serves the next */
    Slot slots[SLOTS_MAXIMUM]; /* in the order of the hash's buckets */
} Environment;

/* ---- stream.c ---------------------------------------------------------------------------------------------------------- */

struct Context;

/* An exchange that Perl code may refer to at any time: from a responder, a writer, or the psgix.informational callback. */
typedef struct {
    struct Context *context;
    oribi_lane *lane;
    oribi_exchange exchange;
    U32 references;
    unsigned forks; /* see Context.forks */
    enum { TICKET_WAITING, TICKET_STREAMING, TICKET_GONE, TICKET_OVER } state;
    SV *environment; /* a reference to that of a response which comes after its callback has returned; or NULL */
} Ticket;

/* ---- interpreter.c ----------------------------------------------------------------------------------------------------- */

/* An interpreter that answers exchanges, with what belongs to it. */
typedef struct Context {
#ifdef MULTIPLICITY
    PerlInterpreter *perl;
#endif
    SV *app;
    unsigned forks;          /* the value of process_forks() in the process that serves */
    bool cloned;             /* `perl` belongs to this context */
    bool retiring;           /* the app asked for this context to be replaced, or called exit; not yet said to the server */
    bool closing;            /* the server is done with this context: nothing may call it any more */
    oribi_exchange *taken;   /* exchanges that are not over and for which the app speaks itself: see socket.c */
    U32 taken_count, taken_room;
    oribi_exchange exchange; /* the one that was begun last */
    oribi_lane *lane;        /* and its lane */
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
/* The environment of a request; the caller owns one reference. */
HV *environment_fill(pTHX_ Context *context, const oribi_request *request);
/* Takes an environment back that the app left as it was, which is the common case. FALSE: the app kept it, or put something in
 * that wants to be looked at; then, in the end, comes environment_return. */
bool environment_return_untouched(pTHX_ Context *context, HV *hash);
/* Gives an environment up; what of it can serve the next request stays. */
void environment_return(pTHX_ Context *context, HV *hash);
/* Has the next request begin with a new environment: whatever is kept cannot be relied on. */
void environment_forget(Environment *environment);
/* The value of a PSGI key, or NULL; NULL too where looking at it would run code. */
SV *environment_value(pTHX_ Environment *environment, HV *hash, U32 psgi_key);

/* ---- input.c ----------------------------------------------------------------------------------------------------------- */

void input_define(pTHX);
/* A reference to a handle that reads what came with a request: its content, or a filter's data. */
SV *input_new(pTHX_ Environment *environment, const oribi_content *from);
/* Whether a handle that was made for a request without content is as good as new. */
bool input_is_pristine(pTHX_ const Environment *environment, SV *glob);

/* Whether a handle has its class and only one reference, its owner's, leads to it and its parts. */
bool handle_is_private(const Environment *environment, SV *glob);

/* ---- layer.c ----------------------------------------------------------------------------------------------------------- */

/* For handles that lead to no file: they have no position (ESPIPE). */
IV layer_seek(pTHX_ PerlIO *handle, Off_t offset, int whence);
Off_t layer_tell(pTHX_ PerlIO *handle);

/* ---- errors.c ---------------------------------------------------------------------------------------------------------- */

void errors_define(pTHX);
/* A reference to a handle whose text the web server gets that the context's present exchange came from. */
SV *errors_new(pTHX_ Context *context);
/* Whether a handle is as it was made and nobody else refers to it. */
bool errors_is_pristine(pTHX_ const Environment *environment, SV *glob);
/* Makes a pristine handle stand for the context's present exchange. */
void errors_rebind(Context *context, SV *glob);

/* ---- socket.c ---------------------------------------------------------------------------------------------------------- */

void socket_define(pTHX);
/* A reference to a handle that takes the client's socket over when it is first used. */
SV *socket_new(pTHX_ Context *context, const oribi_request *request);
/* Whether a handle is unused and nobody else refers to it. */
bool socket_is_pristine(const Environment *environment, SV *glob);
/* Makes a pristine handle stand for the context's present exchange. FALSE: it is for another kind of address. */
bool socket_rebind(Context *context, const oribi_request *request, SV *glob);
/* Whether the app has spoken to the client of an exchange itself: then what it answers in the ordinary way is dropped. */
bool socket_is_taken(const Context *context, oribi_exchange exchange);
/* Ends an exchange whose socket is taken, and says in the log that `what` was dropped. */
void socket_drop(pTHX_ Context *context, oribi_exchange exchange, const char *what);
/* The exchange is over. */
void socket_forget(Context *context, oribi_exchange exchange);

/* ---- call.c ------------------------------------------------------------------------------------------------------------ */

uint32_t call_answer(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
uint32_t call_run_deferred(void *context);
uint32_t call_attend(void *context);
/* Calls `code` with one argument, which may be NULL, and returns what it returned, mortal, or NULL if it died: $@ says of
 * what. */
SV *call_protected(pTHX_ SV *code, SV *argument);
/* The same for a method; NULL if there is no such method too. */
SV *call_method_protected(pTHX_ SV *object, const char *method);
/* Writes "what: $@" to the error log and clears $@. `environment` is that of the request, or NULL. */
void call_log_error(pTHX_ HV *environment, const char *what);
/* Writes a formatted line to the error log, behind the request's method and path. */
void call_log(pTHX_ HV *environment, oribi_log_level level, const char *format, ...)
    __attribute__((format(printf, pTHX_3, pTHX_4)));
/* Whether the environment of a request has cleanup handlers. */
bool call_has_cleanup(pTHX_ Context *context, HV *environment);
/* A request has been answered: sees what its environment asks for, cleanup handlers to run or the end of this context. */
void call_finished(pTHX_ Context *context, HV *environment);

/* ---- text.c ------------------------------------------------------------------------------------------------------------ */

typedef enum { TEXT_OK, TEXT_UNDEFINED, TEXT_WIDE, TEXT_DIED } TextResult;

/* Whether reading a value, which may be NULL, runs no code of the app's. */
static inline bool text_is_quiet(const SV *value) {
    return !value || !(SvFLAGS(value) & (SVs_GMG | SVf_ROK));
}
/* The bytes of a value. Never dies; an object's overloading is called protected. They may be the value's own: then they are
 * good until code of the app's runs, or for as long as the value lives if the app cannot reach it. Others are good until the
 * next FREETMPS. */
TextResult text_bytes(pTHX_ SV *value, oribi_bytes *bytes);
/* What a value is, in words for a message: "a hash reference", "an object of class Foo". Mortal. */
const char *text_describe(pTHX_ SV *value);

/* ---- response.c -------------------------------------------------------------------------------------------------------- */

/* The head of a response: fields that point into values of a settled response. */
typedef struct {
    uint16_t status;
    size_t field_count;
    oribi_field *fields; /* mortal, or `few` */
    oribi_field few[24];
} Head;

/* Where a response goes. */
typedef struct {
    oribi_lane *lane;
    oribi_exchange exchange;
    HV *environment; /* of the request, for messages; or NULL */
} Target;

/* The same array, if reading a response from it and from the lists in it runs no code; otherwise a mortal copy of all of them
 * that the app cannot reach, empty if getting at them died. The functions below take settled ones. */
AV *response_settle(pTHX_ AV *response);
/* The same for a reference to a list of fields. */
SV *response_settle_fields(pTHX_ SV *headers);
/* Read status and fields, or fields alone, of a response. NULL, or what is wrong: a mortal text. */
const char *response_fields(pTHX_ SV *headers, Head *head);
const char *response_head(pTHX_ AV *response, Head *head);
/* Answers with a complete response array. NULL, or what is wrong with the response: a mortal text; the exchange has been given
 * up then. */
const char *response_send(pTHX_ const Target *target, AV *response);
/* What a failed call of the server says, as a mortal text; NULL for ORIBI_OK and ORIBI_GONE, which are no fault of the app. */
const char *response_failure(pTHX_ oribi_result result);

/* ---- body.c ------------------------------------------------------------------------------------------------------------ */

/* Sends a body that is no array. Takes the head as read. Same result as response_send. */
const char *body_send(pTHX_ const Target *target, const Head *head, SV *body);

/* ---- stream.c ---------------------------------------------------------------------------------------------------------- */

/* Answers by calling what the app returned with a responder. FALSE: the answer will come later. */
bool stream_answer(pTHX_ Context *context, SV *code, HV *environment);
/* A reference to a psgix.informational callback for the context's present exchange. */
SV *informational_new(pTHX_ Context *context);
bool informational_is_private(SV *code);
void informational_rebind(Context *context, SV *code);
XS(stream_respond);
XS(stream_write);
XS(stream_close);
XS(informational_send);

/* ---- process.c --------------------------------------------------------------------------------------------------------- */

/* What the callbacks of the host get as their data. */
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
/* Counts the forks that made this process: a copy of a serving process that the app forked knows itself by it. */
unsigned process_forks(void);
/* Ends a process that the app forked and that came back into the server: it must not touch the connections of its parent. */
void process_end_stray(pTHX_ int status) __attribute__((noreturn));
void process_watch_forks(void);

/* ---- children.c ------------------------------------------------------------------------------------------------------- */

/* In a child that the app has forked: gives it the environment of the interpreter that forked it. */
void children_adopt(void);

/* ---- signals.c --------------------------------------------------------------------------------------------------------- */

/* Has Perl's signal handlers wake the lane. */
void signals_define(void);
/* The waker of the calling thread's lane; NULL: it has none any more. */
void signals_set_waker(oribi_waker *waker, bool cloned);
/* For signal handlers: has the lane look at the signals that have arrived. */
void signals_wake(void);
/* Calls the app's handlers of the signals that have arrived. FALSE: one died, $@ says of what, and others may wait. */
bool signals_dispatch(pTHX);
/* In a new worker: from now on an app that resets a signal gets the server's handler back. */
void signals_guard(pTHX);

/* ---- alarms.c ---------------------------------------------------------------------------------------------------------- */

/* Takes the operator over, for all code that is compiled from now on. */
void alarms_define(void);
/* The calling thread starts or stops using a clone. */
void alarms_enter(void);
void alarms_leave(void);

#endif
