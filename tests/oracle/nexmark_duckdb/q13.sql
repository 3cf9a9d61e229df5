SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM bid b JOIN read_json('sql_examples/nexmark/data/side_input.jsonl', format = 'newline_delimited') s ON b.auction % 100 = s.key
