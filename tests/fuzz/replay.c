/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzzer's function over files: the corpus as an ordinary test.
 *
 *   replay FOLDER...     every file in them; fails if there is none */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static int replay_file(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");

    if (!file) {
        perror(path);
        exit(1);
    }

    size_t n = fread(data, 1, sizeof data, file);
    uint8_t *copy = malloc(n ? n : 1);

    fclose(file);
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            char path[4096];

            if (entry->d_name[0] != '.') {
                snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
                n += replay_file(path);
            }
        }
        if (dir) {
            closedir(dir);
        }
    }
    printf("%d inputs replayed\n", n);
    return n == 0;
}
