/* oribi.h - the C face of Oribi: everything that a language host written in C needs.
 *
 * A host is a table of functions (oribi_host). It loads its app, collects its options in an oribi_config and calls
 * oribi_run(), which forks the workers, runs the event loops and calls the host back with complete requests. Every request
 * arrives as one flat array of CGI-style variables and is answered by one of the oribi_respond functions, now or later.
 *
 * Rules that no compiler checks:
 *  - No callback may be left by longjmp, by an exception or by exit(): run the language's code protected.
 *  - A pointer in an oribi_request is good until the callback returns or until the first call of a function that takes the
 *    same lane, whichever comes first: copy what must live longer BEFORE calling oribi_respond or the like.
 *  - A lane is used by the thread that was called with it only. Where threads share one (oribi_host.work), it is used by the
 *    thread that holds the language's lock.
 */
#ifndef ORIBI_H
#define ORIBI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that need not end with a NUL. `data` may be NULL when `size` is 0. */
typedef struct oribi_bytes {
    const char *data;
    size_t size;
} oribi_bytes;

/* A field of a response. Names and values are validated by the server. */
typedef struct oribi_field {
    oribi_bytes name;
    oribi_bytes value;
} oribi_field;

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/* The first variables of every request, always there and always in this order: a variable's place in the array is its key. */
enum {
    ORIBI_REQUEST_METHOD = 0,
    ORIBI_SCRIPT_NAME,
    ORIBI_PATH_INFO, /* percent-decoded, or as sent: see oribi_host.raw_path */
    ORIBI_REQUEST_URI,
    ORIBI_QUERY_STRING,
    ORIBI_SERVER_NAME,
    ORIBI_SERVER_PORT,
    ORIBI_SERVER_PROTOCOL,
    ORIBI_REMOTE_ADDR,
    ORIBI_REMOTE_PORT,
    ORIBI_FIXED_VARIABLES /* how many there are */
};

/* The key of a variable whose name is not interned: build the name from `name`. */
#define ORIBI_KEY_OTHER UINT32_MAX

/* One variable. Keys below oribi_key_count() are interned: make the language's key objects once, at the start. */
typedef struct oribi_variable {
    oribi_bytes name; /* "HTTP_USER_AGENT" */
    oribi_bytes value;
    uint32_t key;
} oribi_variable;

/* How many keys are interned (the fixed variables, CONTENT_TYPE, CONTENT_LENGTH and the well-known HTTP_ names), and the
 * name of each. The numbers are the same throughout the life of a process. */
uint32_t oribi_key_count(void);
oribi_bytes oribi_key_name(uint32_t key);

/* What came with a request, complete: in memory, or (file >= 0) in an unlinked file read from offset 0, which the server closes
 * after the exchange: dup() it to keep it. Neither when size is 0. */
typedef struct oribi_content {
    const char *memory;
    uint64_t size;
    int file;
} oribi_content;

typedef struct oribi_request {
    const oribi_variable *variables;
    size_t variable_count;
    oribi_content content;
    /* What a web server wants filtered (FastCGI's role FILTER); NULL in any other role. */
    const oribi_content *data;
    int https; /* 1: psgi.url_scheme and its like are "https" */
    /* 1: the request came through a web server, by FastCGI: no socket can be taken, and nothing precedes the response. */
    int gateway;
} oribi_request;

/* ---- Replies ------------------------------------------------------------------------------------------------------- */

/* An event loop with the thread and the context that belong to it. */
typedef struct oribi_lane oribi_lane;

/* The name of an exchange; it may be kept and answered after the callback, from the same thread. */
typedef uint64_t oribi_exchange;

typedef enum oribi_result {
    ORIBI_OK = 0,
    ORIBI_GONE = 1,    /* the client has gone, or the exchange is already answered: stop producing */
    ORIBI_INVALID = 2, /* the response breaks HTTP; the client got 500 if nothing was sent. oribi_last_error() says why */
    ORIBI_FAILED = 3,  /* the system refused (out of descriptors, ...); oribi_last_error() says what */
    ORIBI_WOKEN = 4    /* oribi_write() only, see there */
} oribi_result;

/* A whole response; the content is `parts` one behind the other. Content-Length is added unless a field says it. */
oribi_result oribi_respond(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                           size_t field_count, const oribi_bytes *parts, size_t part_count);

/* A whole response from `size` bytes of a regular file from `offset` on; the descriptor is duplicated. */
oribi_result oribi_respond_file(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                                size_t field_count, int file, uint64_t offset, uint64_t size);

/* A response piece by piece. oribi_write() returns late while too much waits for a slow client. It returns early, with ORIBI_WOKEN,
 * when the lane's waker is used meanwhile: what was given is kept and will be sent. See to what the lane was woken for, then call
 * oribi_write() again with a size of 0 to wait on. Whoever has no waker never gets ORIBI_WOKEN. */
oribi_result oribi_start(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                         size_t field_count);
oribi_result oribi_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);
oribi_result oribi_finish(oribi_lane *lane, oribi_exchange exchange);

/* Gives an exchange up: 500 if nothing was sent, else the connection is cut so that the response does not look whole. */
void oribi_abandon(oribi_lane *lane, oribi_exchange exchange);
/* The same with another status than 500: 503 of an app that is overloaded, for instance. */
void oribi_fail(oribi_lane *lane, oribi_exchange exchange, uint16_t status);

/* 1: nobody is left who could receive the response. It asks the kernel for news, so it costs a system call. A client that has
 * merely ended its sending side is still there. */
int oribi_has_gone(oribi_lane *lane, oribi_exchange exchange);

/* An informational response (100 to 199 without 101) before the final one; HTTP/1.0 clients are sent nothing. */
oribi_result oribi_inform(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                          size_t field_count);

/* Passes a message of the app's on to the web server that the exchange came from, for its error log. 1: done. 0: there is no web
 * server, or the exchange is answered; the message belongs into this server's own log. */
int oribi_report(oribi_lane *lane, oribi_exchange exchange, const char *text, size_t size);

/* A new descriptor of the client's socket in blocking mode, or -1. The caller closes it. The connection serves no further
 * request, and an exchange abandoned after this is closed without an answer. */
int oribi_take_socket(oribi_lane *lane, oribi_exchange exchange);

/* How many complete requests wait for an answer, those included that have just arrived: for work that is better done while
 * nobody waits. It asks the kernel for news, so it costs a system call. */
size_t oribi_waiting(oribi_lane *lane);

/* ---- Waking a lane ------------------------------------------------------------------------------------------------- */

/* Has oribi_host.attend called on the lane's thread as soon as that is between two exchanges, or an oribi_write() that waits for
 * its client return ORIBI_WOKEN. However often it is used before the lane sees to it, that happens once. */
typedef struct oribi_waker oribi_waker;

/* A waker of the lane, from oribi_host.begin on; NULL if the lane is closed. It may be kept longer than the lane, and then wakes
 * nobody. */
oribi_waker *oribi_lane_waker(oribi_lane *lane);
/* To be used from any thread and from signal handlers; it leaves errno alone. */
void oribi_wake(const oribi_waker *waker);
void oribi_waker_free(oribi_waker *waker);

/* Has oribi_host.attend called whenever a descriptor has become readable: once for each change, so read until nothing is left. That
 * ends when the descriptor and all its copies are closed, or with oribi_unwatch(). 1: done. 0: oribi_last_error() says why not. */
int oribi_watch(oribi_lane *lane, int descriptor);
int oribi_unwatch(oribi_lane *lane, int descriptor);

/* Has oribi_host.attend called once after so many milliseconds (-1: not at all). What was asked for before is forgotten. 1: done.
 * 0: oribi_last_error() says why not. */
int oribi_wake_after(oribi_lane *lane, int milliseconds);

/* What the last call in this thread that failed says, NUL-terminated. */
const char *oribi_last_error(void);

/* ---- Hosts --------------------------------------------------------------------------------------------------------- */

/* What oribi_host.answer, oribi_host.run_deferred and oribi_host.attend return, or-ed. */
#define ORIBI_AFTER_DEFERRED 1u /* call run_deferred as soon as the response has been sent */
#define ORIBI_AFTER_RETIRE 2u   /* this context must not answer again: replace it */

/* A lane that threads of the language share: see oribi_host.work. */
typedef struct oribi_crew oribi_crew;

/* What is added to this table is added at its end, and a function that is missing there is NULL: a host that was built with an
 * older header goes on working. */
typedef struct oribi_host {
    size_t size;      /* sizeof(oribi_host) */
    const char *name; /* "perl" */
    void *data;       /* given to the functions below */
    int raw_path;     /* 1: PATH_INFO stays percent-encoded */

    /* Makes a context for a lane: with `own`, one that shares nothing with another lane's; without, the only one of the
     * process. Never called from two threads at once. NULL: failed, and logged. */
    void *(*open)(void *data, int own);
    /* The calling thread starts or stops using a context. */
    void (*enter)(void *context);
    void (*leave)(void *context);
    /* Frees a context that no thread uses. */
    void (*close)(void *context);

    /* Answers an exchange now, or keeps the exchange and answers later. */
    uint32_t (*answer)(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
    /* Runs what was to be done after the response has left. */
    uint32_t (*run_deferred)(void *context);

    /* Moments in the life of the processes; each may be NULL. `worker` counts from 1. */
    void (*before_fork)(void *data, uint32_t worker);
    void (*worker_started)(void *data, uint32_t worker);
    void (*worker_stopping)(void *data, uint32_t worker);
    void (*server_ready)(void *data);

    /* Copies the process as fork(2) does, with the same results, in the way that the language wants it done. NULL: fork(2) is
     * good enough; the process must then have one thread only. */
    int (*fork)(void *data);

    /* For a language whose threads share one lock, which is held whenever the host is called and whenever the host calls a
     * function that takes a lane or a member. NULL for others. Called once in each worker, on the thread that loaded the app: has
     * between `least` and `most` threads join the crew and take turns, and returns when all have left it. */
    void (*work)(void *data, oribi_crew *crew, uint32_t least, uint32_t most);
    /* With `work`: called in the middle of oribi_write() when a slow client holds its app up. Lets go of the lock, and returns
     * with it when oribi_crew_wait(), if it was called here, has come back, on `resume`, or after `milliseconds` (-1: no limit).
     * 0: the thread was interrupted, and oribi_write() returns for it to see to that: what it was to write is kept and will be
     * sent. */
    int (*pause)(void *data, int milliseconds);
    /* With `pause`: ends every pause, for what one of them waits for has happened. It must not run the language's code. */
    void (*resume)(void *data);
    /* With `work`: there is something to do, and the calling thread, which runs an app or is about to, may take no turn soon.
     * Another one should. It must not run the language's code either. */
    void (*summon)(void *data);

    /* Behind `enter`: until `leave` the context answers at this lane, which may be asked for a waker. Not called where threads share
     * a lane. NULL: the lane is met with the first request. */
    void (*begin)(void *context, oribi_lane *lane);
    /* The lane was woken: see oribi_waker, oribi_watch() and oribi_wake_after(). Called on the lane's thread between two exchanges;
     * ones that were kept may be answered. NULL: it is woken in vain. */
    uint32_t (*attend)(void *context);

    /* Ends a worker's process as programs of the language end: with exit handlers, finalizers and buffers that are written. It is
     * called once, on the thread that loaded the app, when no context and no lane is left, and may end the process itself; when it
     * returns, the server does so with `status`. It is killed after the graceful timeout. */
    void (*end)(void *data, int status);

    /* Gives the process a title in lists of processes, as the language does it; on the thread that loaded the app, or
     * on one of a crew's that has the lock. NULL: the title stays as it is, for the program is the language's. */
    void (*set_title)(void *data, const char *title, size_t size);
} oribi_host;

/* ---- Threads that share a lane ------------------------------------------------------------------------------------- */

/* A thread of a crew, with a context of its own. */
typedef struct oribi_member oribi_member;

typedef enum oribi_turn {
    ORIBI_TURN_ANSWERED = 0, /* a request was answered: take the next turn */
    ORIBI_TURN_IDLE = 1,     /* nothing to do for so many milliseconds (-1: no limit), unless oribi_crew_wait() finds something */
    ORIBI_TURN_END = 2       /* the worker ends: leave */
} oribi_turn;

/* Opens a context for the calling thread (oribi_host.open, then enter). NULL: failed, and logged. */
oribi_member *oribi_crew_join(oribi_crew *crew);
/* Answers the next request, if there is one. The lock may change hands while the app runs: then other threads take turns. */
oribi_turn oribi_crew_turn(oribi_member *member, int *milliseconds);
/* Closes the context (oribi_host.leave, then close). Requests that it has kept can still be answered. */
void oribi_crew_leave(oribi_member *member);

/* Waits for something to do and may end early. The one function to be called WITHOUT the lock. One thread waits at a time; others
 * that call it wait for that one first. */
void oribi_crew_wait(oribi_crew *crew, int milliseconds);

/* ---- Configuration and running ------------------------------------------------------------------------------------- */

typedef struct oribi_config oribi_config;

typedef enum oribi_setting_result {
    ORIBI_SETTING_OK = 0,
    ORIBI_SETTING_UNKNOWN = 1, /* no such setting: warn, and say what is close (oribi_last_error()) */
    ORIBI_SETTING_BAD = 2      /* the value does not fit: stop (oribi_last_error() says what would) */
} oribi_setting_result;

oribi_config *oribi_config_new(void);
void oribi_config_free(oribi_config *config);

/* Sets one setting by any of its names, with '_' or '-' between words: ("workers", "4"), ("max_reqs_per_child", "1000").
 * A name that may be given several times (listen) adds. `origin` is said in messages and by `oribi check`, and decides who wins:
 * "file PATH" gives way to the environment, and that to any other, such as "command line" or "rackup". */
oribi_setting_result oribi_config_set(oribi_config *config, const char *name, const char *value, const char *origin);

/* To be called when the host is loaded, before its app is: programs that the app starts meanwhile do not inherit the listeners that
 * a master has left for oribi_run(). */
void oribi_prepare(void);

/* Serves until told to stop and returns the exit status of the process. In a worker it returns never. The calling process
 * must have one thread only. `config` is not freed. */
int oribi_run(const oribi_config *config, const oribi_host *host);

/* Writes a line to the error log. */
typedef enum oribi_log_level { ORIBI_LOG_ERROR = 1, ORIBI_LOG_WARN = 2, ORIBI_LOG_INFO = 3, ORIBI_LOG_DEBUG = 4 } oribi_log_level;
void oribi_log(oribi_log_level level, const char *text, size_t size);

/* The version of the server, NUL-terminated: "0.1.0". */
const char *oribi_version(void);

#ifdef __cplusplus
}
#endif
#endif
