;; Lists, hash tables, big numbers and threads under Guile's own collector, which shares the process
;; with malloc.
(use-modules (ice-9 threads) (srfi srfi-1))

(define (hash-of text)
  (string-fold (lambda (c h) (modulo (+ (* h 33) (char->integer c)) 4294967291)) 5381 text))

(define table (make-hash-table))
(do ((i 0 (+ i 1))) ((= i 60000))
  (let ((key (modulo (* i 7919) 5003)))
    (hashv-set! table key (cons i (hashv-ref table key '())))))
(format #t "table ~a ~a~%" (hash-count (const #t) table)
        (hash-fold (lambda (key value sum) (+ sum (* key (length value)))) 0 table))

(define (factorial n) (fold * 1 (iota n 1)))
(format #t "factorial ~a~%" (hash-of (number->string (factorial 2000))))

(define text
  (call-with-output-string
    (lambda (port) (do ((i 0 (+ i 1))) ((= i 40000)) (write (list i (* i i)) port)))))
(format #t "port ~a ~a~%" (string-length text) (hash-of text))

;; No recursion in these threads: where a collection begins just after another thread's stack has grown Guile 3.0.8 clears stacks
;; that are in use, with every malloc (docs/decisions/0040-homes.md).
(format #t "threads ~a~%"
        (par-map (lambda (n)
                   (hash-of (string-concatenate
                             (fold (lambda (i texts) (cons (number->string i) texts)) '()
                                   (iota 8000 n)))))
                 '(1 2 3 4 5 6)))
