/* oribi.h - the C interface of Oribi, for language hosts written in C.
 *
 * A host is a table of functions (oribi_host). It loads its app, sets its options in an oribi_config and calls oribi_run(),
 * which forks the workers, runs the event loops and calls the host with complete requests. A request arrives as one flat
 * array of CGI-style variables. The host answers it with one of the oribi_respond functions, at once or later.
 *
 * Rules that no compiler checks:
 *  - Never leave a callback by longjmp, by an exception or by exit(): run the language's code protected.
 *  - A pointer in an oribi_request is valid until the callback returns, or until the first call of a function that takes the
 *    same lane, whichever comes first: copy data that must live longer BEFORE you call oribi_respond or another such
 *    function.
 *  - Use a lane only on the thread on which the host was called with it. If threads share a lane (oribi_host.lock), the
 *    thread that holds the language's lock may use it.
 */
#ifndef ORIBI_H
#define ORIBI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes; they need not end with a NUL. `data` may be NULL if `size` is 0. */
typedef struct oribi_bytes {
    const char *data;
    size_t size;
} oribi_bytes;

/* A field of a response, or a trailer of a request. The server validates names and values. */
typedef struct oribi_field {
    oribi_bytes name;
    oribi_bytes value;
} oribi_field;

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/* The first variables of every request, always present and always in this order: the key of each is its index in the array. */
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

/* The key of a variable whose name is not interned: take the name from `name`. */
#define ORIBI_KEY_OTHER UINT32_MAX

/* One variable. Keys below oribi_key_count() are interned: make the language's key objects once, when the host starts. */
typedef struct oribi_variable {
    oribi_bytes name; /* "HTTP_USER_AGENT" */
    oribi_bytes value;
    uint32_t key;
} oribi_variable;

/* The number of interned keys (the fixed variables, CONTENT_TYPE, CONTENT_LENGTH and the well-known HTTP_ names), and the name
 * of each. The numbers do not change during the life of a process. */
uint32_t oribi_key_count(void);
oribi_bytes oribi_key_name(uint32_t key);

/* The complete content of a request: in memory, or (file >= 0) in an unlinked file, to be read from offset 0. The server
 * closes the file after the exchange: dup() it to keep it. If size is 0, there is neither. */
typedef struct oribi_content {
    const char *memory;
    uint64_t size;
    int file;
} oribi_content;

typedef struct oribi_request {
    const oribi_variable *variables;
    size_t variable_count;
    oribi_content content;
    /* The file that a web server asks to be filtered (FastCGI's role FILTER); NULL in any other role. */
    const oribi_content *data;
    int https; /* 1: psgi.url_scheme and its like are "https" */
    /* 1: the request came through a web server, by FastCGI: its socket cannot be taken, and no informational response can be
     * sent. */
    int gateway;
    /* The trailers of the request, with names in lower case; a name may occur several times. Fields that must not be trailers
     * (RFC 9110, section 6.5.1) are left out, and none is merged into the variables. */
    const oribi_field *trailers;
    size_t trailer_count;
    /* Seconds for which the request has waited for a worker or thread that runs the app; negative: not for the app
     * (--x-request-start). */
    double queue_time;
} oribi_request;

/* ---- Replies ------------------------------------------------------------------------------------------------------- */

/* An event loop, with the thread and the context that belong to it. */
typedef struct oribi_lane oribi_lane;

/* The name of an exchange. The host may keep it and answer after the callback, on the same thread. */
typedef uint64_t oribi_exchange;

typedef enum oribi_result {
    ORIBI_OK = 0,
    ORIBI_GONE = 1,    /* the client has gone, the exchange is answered, or no more content can be sent: stop producing */
    ORIBI_INVALID = 2, /* the response breaks HTTP; the client got 500 if nothing was sent. Reason: oribi_last_error() */
    ORIBI_FAILED = 3,  /* the system refused (out of descriptors, ...). Reason: oribi_last_error() */
    ORIBI_WOKEN = 4    /* oribi_write() only, see there */
} oribi_result;

/* Sends a whole response whose content is the concatenation of `parts`. Adds Content-Length unless a field sets it. */
oribi_result oribi_respond(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                           size_t field_count, const oribi_bytes *parts, size_t part_count);

/* Sends a whole response with `size` bytes of a regular file, starting at `offset`. The descriptor is duplicated. */
oribi_result oribi_respond_file(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                                size_t field_count, int file, uint64_t offset, uint64_t size);

/* Checks a head that is to be sent later. ORIBI_INVALID: it could not be sent, and oribi_last_error() has the reason; the
 * exchange is unchanged. */
oribi_result oribi_check(oribi_lane *lane, uint16_t status, const oribi_field *fields, size_t field_count);

/* Send a response piece by piece. While too much content waits for a slow client, oribi_write() blocks. If the lane's waker
 * is used meanwhile, or the wait in oribi_lock.without_lock() is interrupted, it returns ORIBI_WOKEN: the piece is kept and
 * will be sent. Handle the cause of the wake-up, then call oribi_write() with a size of 0 to continue waiting. A host that
 * has neither waker nor lock never gets ORIBI_WOKEN. A piece beyond the end of the response ends it, and oribi_write()
 * returns ORIBI_GONE: after its Content-Length, or where it has no content (HEAD, 204, 205, 304). */
oribi_result oribi_start(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                         size_t field_count);
oribi_result oribi_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);
oribi_result oribi_finish(oribi_lane *lane, oribi_exchange exchange);

/* The same with trailers after the content. They are dropped where the response has no place for them: for HTTP/1.0 clients,
 * over FastCGI, with a Content-Length, without content. ORIBI_INVALID: one of them must not be a trailer (RFC 9110, section
 * 6.5.1); then the exchange is abandoned. */
oribi_result oribi_finish_with_trailers(oribi_lane *lane, oribi_exchange exchange, const oribi_field *trailers,
                                        size_t trailer_count);

/* Gives an exchange up: the client gets a 500 if nothing was sent, else the connection is cut so that the response does not
 * look complete. */
void oribi_abandon(oribi_lane *lane, oribi_exchange exchange);
/* The same with a status other than 500: for instance 503 for an overloaded app. */
void oribi_fail(oribi_lane *lane, oribi_exchange exchange, uint16_t status);

/* 1: the client can no longer receive the response. Asks the kernel, so it costs a system call. A client that has only closed
 * its sending side still receives. */
int oribi_has_gone(oribi_lane *lane, oribi_exchange exchange);

/* Sends an informational response (100 to 199 except 101) before the final one; for an HTTP/1.0 client it does nothing. */
oribi_result oribi_inform(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                          size_t field_count);

/* 1: apps have deadlines. This does not change during the life of a worker. */
int oribi_has_deadlines(oribi_lane *lane);

/* Changes the deadline of an exchange whose app is running: the app may take this time from now on before it is interrupted,
 * and as long again whenever it has sent something. -1: it has no deadline, and gets no warnings. This ends with the
 * exchange. */
void oribi_extend_deadline(oribi_lane *lane, oribi_exchange exchange, int64_t milliseconds);

/* Passes a message of the app on to the web server that sent the request, for its error log. 1: done. 0: there is no web
 * server, or the exchange has been answered; write the message to this server's own log. */
int oribi_report(oribi_lane *lane, oribi_exchange exchange, const char *text, size_t size);

/* Hijacks the connection: returns a new descriptor of the client's socket in blocking mode, or -1. The caller closes it. The
 * connection serves no further request, and an exchange that is abandoned after this is closed without an answer. */
int oribi_take_socket(oribi_lane *lane, oribi_exchange exchange);

/* Cuts the connection of that descriptor because data is missing: when it is closed, the client must not take it for an
 * orderly end. May wait a few seconds until the client has taken the bytes that were sent. 0: done, or impossible. -1: a
 * signal has arrived; call it again. A client's Unix socket has no way to show a cut. */
int oribi_break_off(int descriptor);

/* Call this before the response if the callback will return ORIBI_AFTER_RETIRE. If the process ends with the context, it
 * accepts no new connection from now on, and each response is the last on its connection. */
void oribi_retire(oribi_lane *lane);

/* The number of complete requests that wait for an answer, including those that have just arrived: for work that should be
 * done only while no request waits. Asks the kernel, so it costs a system call. */
size_t oribi_waiting(oribi_lane *lane);

/* ---- Waking a lane ------------------------------------------------------------------------------------------------- */

/* A used waker makes the server call oribi_host.attend on the lane's thread as soon as that is between two exchanges, or
 * makes an oribi_write() that waits for its client return ORIBI_WOKEN. Several uses before the lane reacts count as one. */
typedef struct oribi_waker oribi_waker;

/* Returns a waker of the lane, from oribi_host.begin on; NULL if the lane is closed. A waker may outlive its lane; then it
 * does nothing. */
oribi_waker *oribi_lane_waker(oribi_lane *lane);
/* May be called from any thread and from signal handlers; preserves errno. */
void oribi_wake(const oribi_waker *waker);
void oribi_waker_free(oribi_waker *waker);

/* Makes the server call oribi_host.attend whenever a descriptor becomes readable: once for each change, so read until nothing
 * is left. This ends when the descriptor and all its copies are closed, or with oribi_unwatch(). 1: done. 0: see
 * oribi_last_error(). */
int oribi_watch(oribi_lane *lane, int descriptor);
int oribi_unwatch(oribi_lane *lane, int descriptor);

/* Makes the server call oribi_host.attend once after this time (-1: not at all). Replaces the time of an earlier call. 1:
 * done. 0: see oribi_last_error(). */
int oribi_wake_after(oribi_lane *lane, int milliseconds);

/* ---- Backtraces ------------------------------------------------------------------------------------------------------- */

/* Announces the number of threads that report, or have reported, for this question: see oribi_host.trace. */
void oribi_trace_expect(uint32_t question, uint32_t threads);
/* Reports the position of a thread, by the kernel's number (gettid(2)); 0: the calling one. `about` names its request, such
 * as "GET /path". The frames are in the language's own notation, the innermost first, and at most the first 100 are kept;
 * `more` is the number of frames that the caller has left out. If `frames` is NULL, the thread no longer runs an app. */
void oribi_trace_tell(uint32_t question, uint32_t thread, oribi_bytes about, const oribi_bytes *frames, size_t frame_count,
                      size_t more);

/* ---- Metrics of apps -------------------------------------------------------------------------------------------------- */

/* Counters and histograms of apps, for --metrics. These functions may be called from any thread of a worker. They make no
 * system call and never wait; in other processes, and without metrics, they do nothing at all. */

/* The most labels of a counter or histogram. */
#define ORIBI_MOST_LABELS 6

/* 1: the server keeps counters and histograms of apps. It does not change during the life of a worker. */
int oribi_has_figures(void);
/* Adds an amount to a counter, or a value to a histogram. Names are those of Prometheus, and get the prefix "app_". Values of
 * labels are UTF-8; other bytes are replaced, and values longer than 60 bytes are cut. 1: done, or there was no room, which
 * is counted. 0: an invalid name, or a number that is negative or not finite; oribi_last_error() has the reason. */
int oribi_count(oribi_bytes name, double amount, const oribi_field *labels, size_t label_count);
int oribi_observe(oribi_bytes name, double value, const oribi_field *labels, size_t label_count);

/* Reports the garbage collections of the language: their number, and the time that they have taken in total. */
void oribi_note_collections(uint64_t collections, uint64_t nanoseconds);
/* Reports that one more interpreter of Perl answers (1), or one less (-1). */
void oribi_note_interpreter(int change);

/* The message of the last call in this thread that failed, NUL-terminated. */
const char *oribi_last_error(void);

/* ---- Hosts --------------------------------------------------------------------------------------------------------- */

/* Return values of oribi_host.answer, oribi_host.run_deferred and oribi_host.attend; may be or-ed. */
#define ORIBI_AFTER_DEFERRED 1u /* call run_deferred as soon as the response has been sent */
#define ORIBI_AFTER_RETIRE 2u   /* this context must not answer again: replace it */

/* An order to an app that takes too long. */
typedef enum oribi_order {
    ORIBI_ORDER_WARN = 1,     /* write a backtrace of the app to the log, and let it continue */
    ORIBI_ORDER_INTERRUPT = 2 /* raise an error in the app */
} oribi_order;

/* Passes an order to the app that answers `exchange` in this context; `milliseconds` is the time that the app has exceeded.
 *
 * Called IN A SIGNAL HANDLER, on the thread that is inside oribi_host.answer with this context and this exchange, each order
 * at most once. It may do only what a signal handler may do (signal-safety(7)): set flags, and arm a hook by which the
 * language reacts at the next moment that is safe. An interrupted system call of the thread ends with EINTR. Of the functions
 * in this header it may call oribi_wake() only.
 *
 * The app may have returned to the host already. So the host forgets an order that the app did not receive when it returns
 * from `answer`: an order must never reach the next exchange. If the error reaches the host, the host gives the exchange up
 * with oribi_abandon(); then the server answers 504, or cuts the connection if a part of the response has been sent. If the
 * app continues nevertheless, its process is killed some time later (--request-kill). */
typedef void oribi_interrupt_fn(void *context, oribi_exchange exchange, oribi_order order, uint64_t milliseconds);

/* The lock of a language whose threads share one: see below. */
typedef struct oribi_lock oribi_lock;

/* New fields are added at the end of this table. A function that is missing there counts as NULL, so a host that was built
 * with an older header continues to work. */
typedef struct oribi_host {
    size_t size;      /* sizeof(oribi_host) */
    const char *name; /* "perl" */
    void *data;       /* given to the functions below */
    int raw_path;     /* 1: PATH_INFO stays percent-encoded */

    /* Makes a context for a lane: with `own`, one that shares nothing with another lane's; without it, the only one of the
     * process. Never called from two threads at once. Returns NULL if it failed; then it has logged the reason. */
    void *(*open)(void *data, int own);
    /* Called when the calling thread starts or stops using a context. */
    void (*enter)(void *context);
    void (*leave)(void *context);
    /* Frees a context that no thread uses. */
    void (*close)(void *context);

    /* Answers an exchange now, or keeps it and answers later. */
    uint32_t (*answer)(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
    /* Runs the work that the app has deferred until the response has been sent. */
    uint32_t (*run_deferred)(void *context);

    /* Called at moments in the life of the processes; each may be NULL. `worker` counts from 1. */
    void (*before_fork)(void *data, uint32_t worker);
    void (*worker_started)(void *data, uint32_t worker);
    void (*worker_stopping)(void *data, uint32_t worker);
    void (*server_ready)(void *data);

    /* Forks the process in the way of the language, with the same results as fork(2). If NULL, the server calls fork(2), and
     * the process must then have only one thread. */
    int (*fork)(void *data);

    /* NULL. These fields were functions with which hosts ran the threads of a crew themselves; a host that sets one of them
     * is refused. */
    const void *retired[4];

    /* Called after `enter`: until `leave` the context answers at this lane, and may get a waker of it. Not called if threads
     * share a lane. If NULL, the context first sees its lane with the first request. */
    void (*begin)(void *context, oribi_lane *lane);
    /* Called on the lane's thread, between two exchanges, when the lane was woken: see oribi_waker, oribi_watch() and
     * oribi_wake_after(). It may answer exchanges that were kept. If NULL, wake-ups have no effect. */
    uint32_t (*attend)(void *context);

    /* Ends a worker's process as programs of the language end: runs exit handlers and finalizers, and flushes buffers. Called
     * once, on the thread that loaded the app, when no context and no lane is left. It may end the process itself; if it
     * returns, the server ends the process with `status`. The server kills the process after the graceful timeout. */
    void (*end)(void *data, int status);

    /* Sets the title of the process in process lists, in the way of the language; called on the thread that loaded the app
     * or, if threads share a lane, on one of them that holds the lock. If NULL, the title does not change, because the
     * program is the language's. */
    void (*set_title)(void *data, const char *title, size_t size);

    /* The lock of a language whose threads share one. It is held whenever the server calls the host, and whenever the host
     * calls a function that takes a lane or a crew. The threads of a worker are then the language's own and share one lane.
     * If NULL, each lane has a thread of the server and a context of its own. */
    const oribi_lock *lock;

    /* If NULL, apps cannot be interrupted, and a worker whose app does not end in time is killed. */
    oribi_interrupt_fn *interrupt;

    /* Requests the positions of the apps of this worker. Called IN A SIGNAL HANDLER, on any thread of the process: as in
     * oribi_interrupt_fn, it may only set flags and arm hooks, and of the functions in this header it may call oribi_wake()
     * and oribi_trace_expect(), with the number of the threads that run an app. Each of these threads, or another one for
     * them, calls oribi_trace_tell() at the next moment that is safe; a host that cannot count in the handler also calls
     * oribi_trace_expect() there. Reports that do not arrive within some 40 ms are given up. NULL if this language cannot
     * report positions. */
    void (*trace)(void *data, uint32_t question);
    /* 1: an app that waits in a system call does not notice the signal for `trace`. 0: if the app runs on the first thread of
     * the process, it is asked only while that thread runs. */
    int trace_unnoticed;
} oribi_host;

/* ---- Threads that share a lane ------------------------------------------------------------------------------------- */

/* The threads of a worker whose language has one lock for all of them. The server decides which of them waits for requests,
 * which one rests, which one runs the app, and how many there are. The language provides the functions below. */
typedef struct oribi_crew oribi_crew;

/* New fields are added at the end, as in oribi_host. Every function gets oribi_host.data, is called with the lock held and
 * returns with it held. It must not run the app's code unless its description allows that. */
struct oribi_lock {
    size_t size; /* sizeof(oribi_lock) */

    /* Called when a worker begins to serve, with up to `most` threads, on the thread that loaded the app; `crew` is valid
     * until `end`. If `most` is 1, that thread is the only one of the crew. Both functions may be NULL. */
    void (*begin)(void *data, oribi_crew *crew, uint32_t most);
    /* Called when all threads have left the crew, and the lane is about to be freed: kept exchanges can no longer be
     * answered. */
    void (*end)(void *data);

    /* Releases the lock, calls wait(argument), and takes the lock again. If the language has other work for this thread, it
     * calls interrupt(argument) to end the wait early: from any thread, with or without the lock, but from a signal handler
     * only if the process has no second thread. 1: wait() was called. 0: there was other work before that. */
    int (*without_lock)(void *data, void (*wait)(void *), void (*interrupt)(void *), void *argument);
    /* Starts a thread of the language that takes the lock, calls oribi_crew_serve(crew), and ends when that returns. 1:
     * started. 0: no thread was started, and oribi_crew_serve() will not be called. */
    int (*start_thread)(void *data, oribi_crew *crew);

    /* Called between two requests: handles the language's pending work for the calling thread, which may run the app's code,
     * and lets other threads run if it is their turn. 0: the thread leaves the crew; another one may be started in its place.
     * If it is the thread that loaded the app, the process retires instead: it accepts no more connections, and ends when it
     * has answered its requests. NULL if there is nothing to handle. */
    int (*see_to_interrupts)(void *data);

    /* Called on the thread that loaded the app, if that thread runs no requests: sleeps without the lock until `wake_main` is
     * called, or until the language has run code on this thread, such as the app's signal handlers. 0: the app has ended this
     * thread; the process retires, as above. If both are NULL, the thread sleeps by `without_lock`, and `see_to_interrupts`
     * follows. */
    int (*rest_main)(void *data);
    void (*wake_main)(void *data);

    /* 1: the language calls oribi_crew_before_unlocking(). The server then wakes fewer threads without need. */
    int tells_before_unlocking;
};

/* The life of a thread of the crew: opens a context (oribi_host.open, then enter), answers requests, and closes the context
 * (leave, then close). */
void oribi_crew_serve(oribi_crew *crew);

/* Announces that the calling thread, in the crew or not, is about to release the lock in another way than by `without_lock`. */
void oribi_crew_before_unlocking(oribi_crew *crew);

/* ---- Configuration and running ------------------------------------------------------------------------------------- */

typedef struct oribi_config oribi_config;

typedef enum oribi_setting_result {
    ORIBI_SETTING_OK = 0,
    ORIBI_SETTING_UNKNOWN = 1, /* no such setting: warn, with the similar names in oribi_last_error() */
    ORIBI_SETTING_BAD = 2      /* the value does not fit: stop, with the expected form in oribi_last_error() */
} oribi_setting_result;

oribi_config *oribi_config_new(void);
void oribi_config_free(oribi_config *config);

/* Sets one setting by any of its names, with '_' or '-' between words: ("workers", "4"), ("max_reqs_per_child", "1000"). A
 * setting that may be given several times (listen) collects its values. `origin` appears in messages and in `oribi check`,
 * and decides about precedence: the environment overrides "file PATH" (PORT and HOST do not); any other origin, such as
 * "command line" or "rackup", overrides the environment. */
oribi_setting_result oribi_config_set(oribi_config *config, const char *name, const char *value, const char *origin);

/* Call this when the host is loaded, before its app is. Then programs that the app starts while it loads do not inherit the
 * listeners that a master has left for oribi_run(), and the variables that name them are removed from the environment. */
void oribi_prepare(void);

/* Call this if the app cannot be loaded, before the process ends: the text is sent to the client that has requested the
 * reload. The caller writes it to standard error as well. Does nothing if no master has started this process. */
void oribi_load_failed(const char *text, size_t size);

/* Serves until a signal stops the server, and returns the exit status of the process. In a worker it never returns. The
 * calling process must have only one thread. `config` is not freed. */
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
