/* A stand-in for the native library, for tests only: receives five descriptors
 * (stdin, stdout, stderr, result, job), forks, and puts them in place in the child.
 * It makes no namespaces and locks nothing down. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int rf_zygote_next(int control) {
    char byte;
    char space[CMSG_SPACE(5 * sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {0};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    if (recvmsg(control, &message, 0) <= 0) return -1;
    int fds[5];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    pid_t child = fork();
    if (child != 0) {
        for (int i = 0; i < 5; i++) close(fds[i]);
        while (waitpid(-1, 0, WNOHANG) > 0) {}
        return child;
    }
    for (int i = 0; i < 5; i++) dup2(fds[i], 100 + i);
    close(control);
    for (int i = 3; i < 100; i++) close(i);
    for (int i = 0; i < 5; i++) { dup2(100 + i, i); close(100 + i); }
    return 0;
}

/* There are no processors to choose here. */
int rf_zygote_narrow(void) {
    return 0;
}
