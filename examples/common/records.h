// Checks the lines that the threads of hello and follow print: each is whole, those of a thread are in order, and none is missing.
#ifndef RECORDS_H
#define RECORDS_H

#include <cstdio>
#include <string>
#include <vector>

class Records {
  public:
    // `format`, as sscanf takes it, reads the number of a thread and of its line, and by %n where the line ends.
    Records(const char *format, int threads, int lines)
        : format(format), all(static_cast<long>(threads) * lines), next(static_cast<size_t>(threads), 0) {}

    // Reads the lines that a file has since the last call. Where it still grows, the beginning of a line waits for its end.
    void read(FILE *file) {
        char bytes[1 << 16];
        std::clearerr(file);
        while (const size_t count = std::fread(bytes, 1, sizeof bytes, file)) {
            rest.append(bytes, count);
        }
        size_t start = 0;
        for (size_t end; (end = rest.find('\n', start)) != std::string::npos; start = end + 1) {
            good = good && is_next(rest.substr(start, end - start));
            ++lines_seen;
        }
        rest.erase(0, start);
    }
    // Lines read.
    long seen() const { return lines_seen; }
    // Whether all lines were read, each whole and in order.
    bool complete() const { return good && rest.empty() && lines_seen == all; }
    // The same, in words.
    const char *verdict() const { return complete() ? "all whole and in order" : good ? "some are missing" : "one is torn or out of order"; }

  private:
    bool is_next(const std::string &line) {
        int thread = -1, number = -1, end = -1;
        std::sscanf(line.c_str(), format, &thread, &number, &end);
        return end == static_cast<int>(line.size()) && thread >= 0 && static_cast<size_t>(thread) < next.size() && number == next[thread]++;
    }

    const char *format;
    long all, lines_seen = 0;
    std::vector<int> next; // the number of each thread's next line
    std::string rest;      // of the file: the beginning of a line
    bool good = true;
};

#endif
