/* crew.h - the Ruby threads of a worker, and the forks that make workers. */
#ifndef ORIBI_RUBY_CREW_H
#define ORIBI_RUBY_CREW_H

#include "oribi.h"
#include <stdbool.h>

/* For the table of functions: oribi_host.lock. */
extern const oribi_lock crew_lock;

/* Whether the lane of this process can still be used: an object that refers to an exchange may outlive the lane. */
bool crew_has_lane(void);

/* Like oribi_write(), but blocks until the client has room, even if the thread is interrupted. Handles interrupts meanwhile, so
 * a jump may leave it. */
oribi_result crew_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);

/* Call this when Thread#kill has left the app's code: the calling thread ends after its turn. */
void crew_thread_was_killed(void);

/* Handles Ruby's pending work for the calling thread, where no request is being answered. False if the thread was killed,
 * and ends after its turn. */
bool crew_take_interrupts(void);

/* For the table of functions: oribi_host.fork. */
int fork_by_ruby(void *data);

/* The number of forks between fork_watch() and this process. If an app returns with another number than it was called with,
 * it has forked and returned in the child, which must not act as the worker. */
void fork_watch(void);
extern unsigned fork_count;

/* Removes Ruby's handlers for the server's signals, and restores them. */
void signals_yield_to_server(void);
void signals_restore(void);
/* Call this in a worker after the server has set its handlers. */
void signals_know_servers(void);
/* In a child that an app has forked: restores Ruby's handlers for the signals that the server handles in the worker. May be
 * called between fork and exec. */
void signals_leave_server(void);

#endif
