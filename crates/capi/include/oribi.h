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
    ORIBI_FIXED_VARIABLES /* the number of fixed variables */
};

/* The key of a variable whose name is not interned: take the name from `name`. */
#define ORIBI_KEY_OTHER UINT32_MAX

/* One variable. Keys below oribi_key_count() are interned: make the language's key objects once, when the host starts. */
typedef struct oribi_variable {
    oribi_bytes name; /* "HTTP_USER_AGENT" */
    oribi_bytes value;
    uint32_t key;
} oribi_variable;

/* oribi_key_count() returns the number of interned keys: the fixed variables, CONTENT_TYPE, CONTENT_LENGTH and the well-known
 * HTTP_ names. The keys are 0 up to this number, exclusively. oribi_key_name() returns the name of a key, or an empty text if
 * there is no such key. A key does not change during the life of a process. */
uint32_t oribi_key_count(void);
oribi_bytes oribi_key_name(uint32_t key);

/* The complete content of a request, of `size` bytes: in memory, or (file >= 0) in an unlinked file, to be read from offset 0.
 * The server closes the file after the exchange: dup() the descriptor to keep it. If `size` is 0, there is nothing to read in
 * memory or in a file. */
typedef struct oribi_content {
    const char *memory;
    uint64_t size;
    int file;
} oribi_content;

typedef struct oribi_request {
    const oribi_variable *variables;
    size_t variable_count;
    oribi_content content;
    /* The file that the app shall filter for a web server (FastCGI's role FILTER); NULL in any other role. */
    const oribi_content *data;
    int https; /* 1: psgi.url_scheme and its like are "https" */
    /* 1: the request came through a web server, by FastCGI: the socket cannot be taken, and no informational response can be
     * sent. */
    int gateway;
    /* The trailers of the request, with names in lower case; a name may occur several times. Fields that must not be trailers
     * (RFC 9110, section 6.5.1) are left out. No trailer is merged into the variables. */
    const oribi_field *trailers;
    size_t trailer_count;
    /* The seconds for which the request has waited for a worker or thread that runs the app. Negative if the time is unknown,
     * or if --x-request-start is not set. */
    double queue_time;
    /* For liboribi: see oribi_live_offer(). */
    const void *request;
} oribi_request;

/* ---- Replies ------------------------------------------------------------------------------------------------------- */

/* An event loop, with the thread and the context that belong to it. */
typedef struct oribi_lane oribi_lane;

/* Identifies an exchange of a lane. The host may keep it and answer after the callback, on the same thread. After the end of
 * the exchange, oribi_respond() and the other functions that return an oribi_result return ORIBI_GONE. The value never
 * identifies another exchange. */
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

/* Checks a head that is to be sent later, and sends nothing. ORIBI_INVALID: the server would refuse the head;
 * oribi_last_error() has the reason. */
oribi_result oribi_check(oribi_lane *lane, uint16_t status, const oribi_field *fields, size_t field_count);

/* These three functions send a response piece by piece. While too much content waits for a slow client, oribi_write() blocks.
 * It returns ORIBI_WOKEN if the lane's waker is used during this wait, or if the wait in oribi_lock.without_lock() is
 * interrupted. The piece is kept and will be sent: handle the cause of the wake-up, then call oribi_write() with a size of 0 to
 * continue waiting. A host that has neither waker nor lock never gets ORIBI_WOKEN.
 *
 * Bytes beyond Content-Length are dropped, and so is any content of a response that has none (HEAD, 204, 205, 304). Then the
 * response is complete, and oribi_write() returns ORIBI_GONE. */
oribi_result oribi_start(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                         size_t field_count);
oribi_result oribi_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);
oribi_result oribi_finish(oribi_lane *lane, oribi_exchange exchange);

/* As oribi_write(), but never waits, for hosts with oribi_host.run_loop: the piece is kept as a whole and ORIBI_WOKEN is never
 * returned. Ask oribi_has_room() before the next piece, so that what waits for a slow client does not grow without a bound. */
oribi_result oribi_offer(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);
/* 1: the client has taken enough for more content. 0: not yet. -1: no client waits for the response any more. Makes no system
 * call. A host with oribi_host.run_loop asks again in oribi_host.attend. */
int oribi_has_room(oribi_lane *lane, oribi_exchange exchange);

/* As oribi_finish(), but sends trailers after the content. They are dropped if the response has no place for trailers: for
 * HTTP/1.0 clients, over FastCGI, with a Content-Length, without content. ORIBI_INVALID: a field must not be a trailer (RFC
 * 9110, section 6.5.1); then the exchange is abandoned. */
oribi_result oribi_finish_with_trailers(oribi_lane *lane, oribi_exchange exchange, const oribi_field *trailers,
                                        size_t trailer_count);

/* Gives an exchange up. If nothing was sent, the client gets a 500; otherwise the connection is cut, so that the response does
 * not look complete. */
void oribi_abandon(oribi_lane *lane, oribi_exchange exchange);
/* As oribi_abandon(), with another status than 500: for instance 503 for an overloaded app. */
void oribi_fail(oribi_lane *lane, oribi_exchange exchange, uint16_t status);

/* Returns 1 if the client can no longer receive the response, or the exchange is over. Asks the kernel, so it costs a system
 * call. A client that has only closed its sending side can still receive. */
int oribi_has_gone(oribi_lane *lane, oribi_exchange exchange);

/* 1: connections may stay open while no app has anything to do with them (WebSockets, event streams), so that oribi_command() has
 * an effect. This does not change during the life of a worker. The pointers in an oribi_request stay valid. */
int oribi_has_live_connections(oribi_lane *lane);

/* The form in which the connection of a request may stay open, if its app wants that: an edge accepts that form, and no other. Only
 * while oribi_host.answer runs, with the request that it got. A request that has neither HTTP_UPGRADE nor an HTTP_ACCEPT that begins
 * with text/event-stream is offered nothing, so hosts need not ask. */
typedef enum oribi_live { ORIBI_LIVE_NONE = 0, ORIBI_LIVE_WEBSOCKET = 1, ORIBI_LIVE_EVENT_STREAM = 2 } oribi_live;
oribi_live oribi_live_offer(oribi_lane *lane, const oribi_request *request);

/* Gives the commands of an app for the connection of an exchange, or for others, to the process that owns the connections, before the
 * response ends. The bytes of commands, and the fields of events: docs/live.md. The commands of an exchange may come in any pieces. */
oribi_result oribi_command(oribi_lane *lane, oribi_exchange exchange, const char *commands, size_t size);

/* 1: this process can give commands outside of a request, by oribi_post(). Workers of a server with edges can, and processes that
 * they fork. */
int oribi_can_post(void);

/* Gives commands outside of a request, from any thread: publish, close all subscribers, and those that name a connection; others
 * are an error. They have at most 65,533 bytes. Waits, up to 30 seconds, for edges that do not read fast enough. Returns 0
 * when all edges have them. -1: error, see oribi_last_error(). `give_up` may be NULL; otherwise a wait ends soon after another thread has
 * set it to 1, with an error. */
int oribi_post(const char *commands, size_t size, int *give_up);

/* Sends an informational response (100 to 199 except 101) before the final one; for an HTTP/1.0 client it does nothing. */
oribi_result oribi_inform(oribi_lane *lane, oribi_exchange exchange, uint16_t status, const oribi_field *fields,
                          size_t field_count);

/* 1: apps have deadlines. This does not change during the life of a worker. */
int oribi_has_deadlines(oribi_lane *lane);

/* Changes the deadline of an exchange whose app is running. From now on the app may take this time before it is interrupted,
 * and the same time again after each piece that it sends. -1: the app has no deadline, and the server logs no warnings about
 * it. The change ends with the exchange. */
void oribi_extend_deadline(oribi_lane *lane, oribi_exchange exchange, int64_t milliseconds);

/* Passes a message of the app on to the web server that sent the request, for the error log of that web server. 1: done. 0:
 * there is no web server, or the exchange has been answered; write the message to Oribi's own log. */
int oribi_report(oribi_lane *lane, oribi_exchange exchange, const char *text, size_t size);

/* Hijacks the connection: returns a new descriptor in blocking mode, by which the caller reads from the client and writes to
 * it, or -1, with the reason in oribi_last_error() unless the lane is closed. It is a descriptor of the client's socket, or of
 * a Unix socket pair whose other end the server connects with the client (with TLS, for instance). The caller closes the
 * descriptor. The connection serves no further request. If the exchange is abandoned after this, it ends without an answer. */
int oribi_take_socket(oribi_lane *lane, oribi_exchange exchange);

/* Call this before closing a descriptor of oribi_take_socket() if data is missing: when the descriptor is closed, the
 * connection is then aborted, so that the client does not take its end for an orderly one. May wait a few seconds until the
 * client has taken the bytes that were sent. 0: done, or impossible. -1: a signal has arrived; call the function again. A
 * client's Unix socket has no way to show an abort. */
int oribi_break_off(int descriptor);

/* Call this before the response if the callback will return ORIBI_AFTER_RETIRE. If the process is to end together with the
 * context, the process accepts no new connection from now on, and each response is the last on its connection. */
void oribi_retire(oribi_lane *lane);

/* Whether the process is about to end, as soon as the open exchanges have been answered: the app ends those that have no end of
 * their own. Further requests may come. A host with oribi_host.run_loop is called once more when that begins. */
int oribi_stops(oribi_lane *lane);

/* The number of complete requests that wait for an answer, including those that have just arrived: for work that should be
 * done only while no request waits. Asks the kernel, so it costs a system call. */
size_t oribi_waiting(oribi_lane *lane);

/* ---- Waking a lane ------------------------------------------------------------------------------------------------- */

/* oribi_wake() makes the server call oribi_host.attend on the lane's thread as soon as this thread is between two exchanges. If
 * oribi_write() is waiting for its client on this thread, oribi_wake() makes it return ORIBI_WOKEN. Several calls before the
 * lane reacts count as one. */
typedef struct oribi_waker oribi_waker;

/* Returns a waker of the lane; free it with oribi_waker_free(). May be called from oribi_host.begin on. NULL if the lane is
 * closed. A waker may outlive its lane; then oribi_wake() does nothing. */
oribi_waker *oribi_lane_waker(oribi_lane *lane);
/* May be called from any thread and from signal handlers; preserves errno. */
void oribi_wake(const oribi_waker *waker);
void oribi_waker_free(oribi_waker *waker);

/* Makes the server call oribi_host.attend whenever a descriptor becomes readable: once for each change, so read until nothing
 * is left. The effect ends with oribi_unwatch(), or when the descriptor and all its copies are closed. Both functions return 1
 * if they succeeded; otherwise 0, with the reason in oribi_last_error(). */
int oribi_watch(oribi_lane *lane, int descriptor);
int oribi_unwatch(oribi_lane *lane, int descriptor);

/* Makes the server call oribi_host.attend once after this time, which replaces the time of an earlier call; -1 cancels the
 * earlier call. Returns 1, or 0 with the reason in oribi_last_error(). */
int oribi_wake_after(oribi_lane *lane, int milliseconds);

/* ---- Backtraces ------------------------------------------------------------------------------------------------------- */

/* Announces the number of threads that will report, or have reported, for the request for backtraces with the number
 * `question`: see oribi_host.trace. */
void oribi_trace_expect(uint32_t question, uint32_t threads);
/* Reports the position of a thread for that request. `thread` is the kernel's thread ID (gettid(2)); 0 means the calling
 * thread. `about` describes the HTTP request of the thread, such as "GET /path". The frames are in the language's own notation,
 * the innermost first, and at most the first 100 are kept; `more` is the number of frames that the caller has left out. If
 * `frames` is NULL, the thread no longer runs an app. */
void oribi_trace_tell(uint32_t question, uint32_t thread, oribi_bytes about, const oribi_bytes *frames, size_t frame_count,
                      size_t more);

/* ---- Metrics of apps -------------------------------------------------------------------------------------------------- */

/* Counters and histograms of apps, for --metrics. These functions may be called from any thread of a worker. They make no
 * system call and never wait; in other processes, and without metrics, they do nothing at all. */

/* The most labels of a counter or histogram. */
#define ORIBI_MOST_LABELS 6

/* 1: the server keeps counters and histograms of apps. It does not change during the life of a worker. */
int oribi_has_figures(void);
/* oribi_count() adds an amount to a counter, oribi_observe() a value to a histogram. Names are those of Prometheus, and get the
 * prefix "app_". Values of labels are UTF-8; other bytes are replaced, and values longer than 60 bytes are cut. Both return 1
 * if the number was added, or if there was no room for it, which the metrics count. They return 0 for an invalid name, and for
 * a number that is negative or not finite; then oribi_last_error() has the reason. */
int oribi_count(oribi_bytes name, double amount, const oribi_field *labels, size_t label_count);
int oribi_observe(oribi_bytes name, double value, const oribi_field *labels, size_t label_count);

/* Reports the garbage collections of the language since the previous report of this process: their number, and the time that
 * they have taken together. */
void oribi_note_collections(uint64_t collections, uint64_t nanoseconds);
/* Changes the number of Perl interpreters that answer in this process by `change`: 1 when an interpreter begins to answer, -1
 * when it ends. */
void oribi_note_interpreter(int change);

/* The message of the last call in this thread that failed, NUL-terminated. */
const char *oribi_last_error(void);

/* A text for a message, without what may be secret in it: keys, passwords, tokens. NUL-terminated, and valid until the next call in this
 * thread. */
const char *oribi_masked(const char *text);

/* ---- Hosts --------------------------------------------------------------------------------------------------------- */

/* Return values of oribi_host.answer, oribi_host.run_deferred and oribi_host.attend; may be or-ed. */
#define ORIBI_AFTER_DEFERRED 1u /* call run_deferred as soon as the response has been sent */
#define ORIBI_AFTER_RETIRE 2u   /* this context must not answer again: replace it */

/* An order to an app that takes too long. */
typedef enum oribi_order {
    ORIBI_ORDER_WARN = 1,     /* write a backtrace of the app to the log, and let it continue */
    ORIBI_ORDER_INTERRUPT = 2 /* raise an error in the app */
} oribi_order;

/* Passes an order to the app that answers `exchange` in this context. `milliseconds` is the time limit that the app has
 * exceeded.
 *
 * Called IN A SIGNAL HANDLER, on the thread that is inside oribi_host.answer with this context and this exchange, each order at
 * most once. The function may do only what a signal handler may do (signal-safety(7)): set flags, and arm a hook by which the
 * language reacts at the next moment that is safe. An interrupted system call of the thread ends with EINTR. Of the functions
 * in this header it may call oribi_wake() only.
 *
 * The app may have returned to the host already, and an order must never reach the next exchange. So when the host returns from
 * `answer`, it drops an order that the app has not received. If the error that the order has raised reaches the host, the host
 * gives the exchange up with oribi_abandon(); then the server answers 504, or cuts the connection if a part of the response has
 * been sent. If the app continues nevertheless, its process is killed some time later (--request-kill). */
typedef void oribi_interrupt_fn(void *context, oribi_exchange exchange, oribi_order order, uint64_t milliseconds);

/* Calls work(argument), in which the app continues to answer an exchange that it has kept, on the lane's thread. Meanwhile
 * orders to the app come by `interrupt`, as by oribi_host.interrupt during oribi_host.answer: behind an edge, and if apps have
 * deadlines. */
void oribi_resume(oribi_lane *lane, oribi_exchange exchange, oribi_interrupt_fn *interrupt, void *context, void (*work)(void *),
                  void *argument);

/* The lock of a language whose threads share one lock: see below. */
typedef struct oribi_lock oribi_lock;

/* New fields are added at the end of this table. A function that is missing there counts as NULL, so a host that was built
 * with an older header continues to work. */
typedef struct oribi_host {
    size_t size;      /* sizeof(oribi_host) */
    const char *name; /* "perl" */
    void *data;       /* given to the functions below */
    int raw_path;     /* 1: PATH_INFO stays percent-encoded */

    /* Makes a context for a lane. If `own` is 1, the context shares no state with the contexts of other lanes. If it is 0, the
     * process has no other lane; with `lock`, this lane has a context for each of its threads. Never called from two threads at
     * once. Returns NULL if it failed; then it has logged the reason. */
    void *(*open)(void *data, int own);
    /* `enter` is called when the calling thread starts using a context, `leave` when it stops. */
    void (*enter)(void *context);
    void (*leave)(void *context);
    /* Frees a context that no thread uses. */
    void (*close)(void *context);

    /* Answers an exchange now, or keeps it and answers later. */
    uint32_t (*answer)(void *context, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request);
    /* Runs the work that the app has deferred until the response has been sent. */
    uint32_t (*run_deferred)(void *context);

    /* Called at moments in the life of the processes; each may be NULL. `worker` is the number of the worker, from 1. */
    void (*before_fork)(void *data, uint32_t worker);
    void (*worker_started)(void *data, uint32_t worker);
    void (*worker_stopping)(void *data, uint32_t worker);
    void (*server_ready)(void *data);

    /* Forks the process in the way of the language, with the same results as fork(2). If NULL, the server calls fork(2), and
     * the process must then have only one thread. */
    int (*fork)(void *data);

    /* Always NULL: earlier versions had functions here with which hosts ran the threads of a crew themselves. oribi_run()
     * refuses a host that sets one of them. */
    const void *retired[4];

    /* Called after `enter`: until `leave` the context answers the requests of this lane, and may get a waker of the lane. Not
     * called if threads share a lane. If NULL, the context first sees its lane with the first request. */
    void (*begin)(void *context, oribi_lane *lane);
    /* Called on the lane's thread, between two exchanges, when the lane was woken: see oribi_waker, oribi_watch() and
     * oribi_wake_after(). It may answer exchanges that were kept. If NULL, wake-ups have no effect. */
    uint32_t (*attend)(void *context);

    /* Ends a worker's process as programs of the language end: runs exit handlers and finalizers, and flushes buffers. Called
     * once, on the thread that loaded the app, when no context and no lane is left. The function may end the process itself; if
     * it returns, the server ends the process with `status`. The server kills the process after the graceful timeout. */
    void (*end)(void *data, int status);

    /* Sets the title of the process in process lists, in the way of the language. Called on the thread that loaded the app; if
     * threads share a lane, on any of these threads, with the lock held. If NULL, the title does not change, because the server
     * must not overwrite the arguments of the language's program. */
    void (*set_title)(void *data, const char *title, size_t size);

    /* The lock of a language whose threads share one lock. It is held whenever the server calls the host, and whenever the host
     * calls a function that takes a lane or a crew. The threads of a worker are then threads of the language, and share one
     * lane. If NULL, each lane has a thread of the server and a context of its own. */
    const oribi_lock *lock;

    /* If NULL, apps cannot be interrupted, and a worker whose app does not end in time is killed. */
    oribi_interrupt_fn *interrupt;

    /* Requests the positions of the apps of this worker, for the request for backtraces with the number `question`. Called IN A
     * SIGNAL HANDLER, on any thread of the process: as in oribi_interrupt_fn, the function may only set flags and arm hooks. Of
     * the functions in this header it may call oribi_wake() and oribi_trace_expect(), the latter with the number of threads
     * that run an app. A host that cannot count these threads in the handler calls oribi_trace_expect() later, when it first
     * reports. For each of these threads, the thread itself or another one calls oribi_trace_tell() at the next moment that is
     * safe. The server waits some 40 ms for the reports. NULL if this language cannot report positions. */
    void (*trace)(void *data, uint32_t question);
    /* 1: the signal for `trace` does not disturb an app that waits in a system call. 0: it may disturb it; so if the app runs
     * on the first thread of the process, the server sends the signal only while that thread runs. */
    int trace_unnoticed;

    /* Set by a host that runs an event loop of its language in each lane, so that requests wait in the app without holding the
     * lane. Only for contexts that were opened with `own` 0, and not with `lock`. The lane calls it when it has nothing to do,
     * and between two requests. It waits until `descriptor` is readable (as poll(2) says; do not read from it), until
     * `milliseconds` are over (-1: no limit) or until the loop has something to do, does that, and returns: one round. `attend`
     * is then also called when clients have taken content that waited for them, or have gone: see oribi_has_room(). The result
     * is as that of `attend`. NULL if the app blocks. */
    uint32_t (*run_loop)(void *context, int descriptor, int64_t milliseconds);
} oribi_host;

/* ---- Threads that share a lane ------------------------------------------------------------------------------------- */

/* The threads of a worker whose language has one lock for all of them. The server decides which of them waits for requests,
 * which one rests, which one runs the app, and how many there are. The language provides the functions below. */
typedef struct oribi_crew oribi_crew;

/* New fields are added at the end, as in oribi_host. Every function gets oribi_host.data, and is called and returns with the
 * lock held. It must not run the app's code unless its description allows that. */
struct oribi_lock {
    size_t size; /* sizeof(oribi_lock) */

    /* `begin` is called on the thread that loaded the app, when a worker begins to serve with up to `most` threads. `crew` is
     * valid until `end`. If `most` is 1, the thread that loaded the app is the only one of the crew. Both `begin` and `end` may
     * be NULL. */
    void (*begin)(void *data, oribi_crew *crew, uint32_t most);
    /* Called when all threads have left the crew and the lane is about to be freed: exchanges that the host has kept can no
     * longer be answered. */
    void (*end)(void *data);

    /* Releases the lock, calls wait(argument), and takes the lock again. If the language has other work for this thread, the
     * host calls interrupt(argument) to end the wait early. That is allowed from any thread, with or without the lock, but from
     * a signal handler only if the process has a single thread. Returns 1 if wait() was called, 0 if there was other work
     * before that. */
    int (*without_lock)(void *data, void (*wait)(void *), void (*interrupt)(void *), void *argument);
    /* Starts a thread of the language that takes the lock, calls oribi_crew_serve(crew), and ends when that returns. Returns 1
     * if the thread was started; 0 if it was not, and oribi_crew_serve() will not be called. */
    int (*start_thread)(void *data, oribi_crew *crew);

    /* Called between two requests: handles the language's pending work for the calling thread, which may run the app's code,
     * and lets other threads run if it is their turn. If it returns 0, the thread leaves the crew; another thread may be
     * started in its place. If a 0 comes from the thread that loaded the app, the process retires instead: it accepts no more
     * connections, and ends when it has answered its requests. NULL if there is never pending work. */
    int (*see_to_interrupts)(void *data);

    /* Called on the thread that loaded the app, if that thread runs no requests. `rest_main` sleeps without the lock until
     * `wake_main` is called, or until the language has run code on this thread, such as the app's signal handlers. It returns 0
     * if the app has ended this thread; then the process retires, as above. If both functions are NULL, the thread sleeps by
     * `without_lock`, and `see_to_interrupts` is called afterwards. */
    int (*rest_main)(void *data);
    void (*wake_main)(void *data);

    /* 1: the language calls oribi_crew_before_unlocking(). Then the server does not need to wake another thread in advance,
     * before each call of an app. */
    int tells_before_unlocking;
};

/* The life of a thread of the crew: opens a context (oribi_host.open, then enter), answers requests, and closes the context
 * (leave, then close). */
void oribi_crew_serve(oribi_crew *crew);

/* Announces that the calling thread, in the crew or not, is about to release the lock in another way than by `without_lock`. */
void oribi_crew_before_unlocking(oribi_crew *crew);

/* oribi_crew_mark_waiting() is called with the lock held, by any thread, for an app that a thread of the crew is running and that
 * only waits from now on: another thread may run an app in its place, up to --max-io-threads of them. Returns 0 during the boot
 * request. After 1, call oribi_crew_unmark_waiting() once on the app's thread before oribi_host.answer returns; if that returns 0,
 * the thread must leave the crew: `see_to_interrupts` must return 0 there. */
int oribi_crew_mark_waiting(oribi_crew *crew);
int oribi_crew_unmark_waiting(oribi_crew *crew);

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
 * setting that may be given several times (listen) collects its values. `origin` appears in messages and in `oribi check`, and
 * decides about precedence. The environment overrides values of the origin "file PATH", except by PORT and HOST. Values of any
 * other origin, such as "command line" or "rackup", override the environment. */
oribi_setting_result oribi_config_set(oribi_config *config, const char *name, const char *value, const char *origin);

/* Returns the value of --loop, NUL-terminated: "auto", "none", "ev", ... `*can_loop` is set to 1 if an event loop can run in the
 * workers, because each has one thread and its connections, if it has any, can be waited for by others than the server. Otherwise
 * oribi_host.run_loop must be NULL. NULL if the settings contradict each other, which oribi_run() reports. */
const char *oribi_config_loop(const oribi_config *config, int *can_loop);

/* Returns the value of --fibers: the most requests of a worker that run at once, each in a fiber of the language, or 0. Unless
 * it is 0, an event loop can run in the workers. 0 also if the settings contradict each other, which oribi_run() reports. */
uint32_t oribi_config_fibers(const oribi_config *config);

/* Returns the value of --max-io-threads: see oribi_crew_mark_waiting(). 0 also if the settings contradict each other, which
 * oribi_run() reports. */
uint32_t oribi_config_io_threads(const oribi_config *config);

/* Returns the value of --request-timeout in milliseconds. 0: there is none, or the settings contradict each other. */
uint64_t oribi_config_request_timeout(const oribi_config *config);

/* Call this when the host has been loaded, before the app is loaded. The listeners that a master has left for oribi_run() are
 * then not inherited by programs that the app starts while it loads, and the variables that name these listeners are removed
 * from the environment. */
void oribi_prepare(void);

/* Call this if the app cannot be loaded, before the process ends: the text is sent to the client that has requested the reload
 * by the control socket. Also write the text to standard error yourself. Does nothing if no master has started this process. */
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
