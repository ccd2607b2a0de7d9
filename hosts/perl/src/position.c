/* position.c - the progress of a socket's two directions, which distinguishes reading and writing from looking. */
#include "perl_host.h"
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifdef __linux__
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#else
#define SIOCINQ FIONREAD
#define SIOCOUTQ TIOCOUTQ
#endif

/* Bytes in a queue of a socket; 0 if the system does not report them. */
static uint64_t queued(int file, unsigned long queue) {
    int bytes = 0;
    return ioctl(file, queue, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

#if defined(__linux__) && defined(TCP_INFO)
/* The most repetitions if bytes have arrived or were acknowledged meanwhile. */
#define TRIES 8

static bool tcp_info(int file, struct tcp_info *info) {
    socklen_t size = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(file, IPPROTO_TCP, TCP_INFO, info, &size) == 0
           && size >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info->tcpi_bytes_received;
}

/* Whether the client has ended its direction: its end counts as a byte that was received. */
static bool has_ended(const struct tcp_info *info) {
    /* CLOSE_WAIT, LAST_ACK, CLOSING, TIME_WAIT: the header with these names contradicts that of the structure. */
    return info->tcpi_state == 8 || info->tcpi_state == 9 || info->tcpi_state == 11 || info->tcpi_state == 6;
}

static bool tcp_position(int file, Position *position) {
    struct tcp_info before, after;
    if (!tcp_info(file, &before))
        return FALSE;
    for (int left = TRIES; left > 0; left--, before = after) {
        const uint64_t unread = queued(file, SIOCINQ), unacknowledged = queued(file, SIOCOUTQ);
        if (!tcp_info(file, &after))
            return FALSE;
        position->read = before.tcpi_bytes_received - unread - has_ended(&before);
        position->written = before.tcpi_bytes_acked + unacknowledged;
        if (before.tcpi_bytes_received == after.tcpi_bytes_received && before.tcpi_bytes_acked == after.tcpi_bytes_acked)
            break;
    }
    return TRUE;
}
#else
static bool tcp_position(int file, Position *position) {
    UNUSED_ARGUMENT(file);
    UNUSED_ARGUMENT(position);
    return FALSE;
}
#endif

Position position_of(int file) {
    Position position = {.exact = TRUE};
    if (tcp_position(file, &position))
        return position;
    /* Other sockets count nothing. Bytes that have left the queue were read; bytes that wait for the client were written. */
    return (Position){.exact = FALSE, .read = UINT64_MAX - queued(file, SIOCINQ), .written = queued(file, SIOCOUTQ)};
}
